package differential

import (
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// drawSettings draws how a server is set up.
func drawSettings(t *rapid.T) settings {
	lists := map[string][]string{ // as JSON; empty: not given
		"names": {"", "", `[]`, `null`, `[""]`, `[" "]`, `["proxy"]`, `["proxy","other proxy"]`, `["other proxy"]`, `[" proxy "]`,
			`["proxy",""]`, `["Proxy"]`},
		"user": {`["X-Remote-User"]`, `["x-remote-user"]`, `["X-Alt-User","X-Remote-User"]`, `["X-Remote-User","X-Alt-User"]`,
			`[" X-Remote-User "]`, `[]`, `[""]`, ""},
		"uid":    {"", "", `["X-Remote-Uid"]`, `["x-alt-uid","x-remote-uid"]`, `[]`},
		"group":  {`["X-Remote-Group"]`, `["x-remote-group"]`, `["X-Alt-Group","X-Remote-Group"]`, `[]`, ""},
		"prefix": {`["X-Remote-Extra-"]`, `["x-remote-extra-"]`, `["X-Remote-"]`, `["X-Alt-","X-Remote-Extra-"]`, `[""]`, `[]`, ""},
	}
	list := func(name string) string { return rapid.SampledFrom(lists[name]).Draw(t, name) }
	set := settings{
		Asks: rapid.IntRange(0, 4).Draw(t, "asks") > 0, Reviews: rapid.IntRange(0, 4).Draw(t, "reviews") > 0,
		SkipLookup: rapid.Bool().Draw(t, "skip lookup"),
		AlwaysAllow: rapid.SampledFrom([][]string{
			{"/healthz", "/readyz", "/livez"}, {"/healthz", "/open/*"}, {"/healthz"}, {"*"}, {"/*"}, {}, {""}, {"/"}, {"healthz"},
			{"/healthz*", "/open"}, {"/a*b"},
		}).Draw(t, "always allow"),
		Names: list("names"), User: list("user"), UID: list("uid"), Group: list("group"), Prefix: list("prefix"),
	}
	ca := []string{"", "clients", "proxies", "clients and proxies"}
	set.ClientCA = rapid.SampledFrom(append(ca, "clients", "clients")).Draw(t, "client CA")
	set.ProxyCA = rapid.SampledFrom(append(ca, "proxies", "proxies")).Draw(t, "front proxy CA")
	if rapid.IntRange(0, 2).Draw(t, "ConfigMap") > 0 {
		set.ConfigMap = map[string]string{}
		put := func(key, value string) {
			if value != "" {
				set.ConfigMap[key] = value
			}
		}
		put("client-ca-file", string(bundle(rapid.SampledFrom(ca).Draw(t, "client CA in the ConfigMap"))))
		put("requestheader-client-ca-file",
			string(bundle(rapid.SampledFrom(append(ca, "proxies", "proxies")).Draw(t, "front proxy CA in the ConfigMap"))))
		lists["names"] = append(lists["names"], `proxy`, `"proxy"`) // no list
		put("requestheader-allowed-names", list("names"))
		put("requestheader-username-headers", list("user"))
		put("requestheader-uid-headers", list("uid"))
		put("requestheader-group-headers", list("group"))
		put("requestheader-extra-headers-prefix", list("prefix"))
	}
	return set
}

// drawRequest draws what a client sends.
func drawRequest(t *rapid.T) request {
	r := request{
		Method: rapid.SampledFrom([]string{"GET", "GET", "GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "get", "FOO",
			"TRACE"}).Draw(t, "method"),
		Target: rapid.SampledFrom([]string{
			"/sar/allow", "/sar/allow", "/sar/allow", "/sar/deny", "/sar/none", "/sar/both", "/sar/error", "/sar/allow-error",
			"/sar/none-error",
			"/sar/deny-anonymous", "/healthz", "/healthz", "/healthz/", "//healthz", "/healthz?verbose", "/HEALTHZ", "/%68ealthz",
			"/healthz%2f",
			"/healthz%00", "/healthz/../sar/deny", "/sar/deny/../../healthz", "/./healthz", "/open", "/open/", "/open/sar/deny", "/openly",
			"/", "*",
			"http://elsewhere/healthz", "http://elsewhere", "/sar/allow;x=y", "/sar/%zz", "/api/v1/pods",
			"/apis/apps/v1/deployments?watch=1", "healthz",
		}).Draw(t, "target"),
		Cert: rapid.SampledFrom(slices.Concat(make([]string, 6), []string{"proxy", "proxy", "proxy"},
			slices.Sorted(maps.Keys(clientCertificates())))).Draw(t, "certificate"),
	}
	r.Headers = append(r.Headers, drawLines(t, "Authorization", 1, []string{"Authorization", "authorization"}, []string{
		"", "", "", "Bearer scraper", "bearer scraper", "Bearer  scraper", "Bearer scraper more", "Bearer\tscraper", "Bearer", "Bearer ",
		"scraper", "Basic YTpi",
		"Bearer forged", "Bearer nobody", "Bearer error", "Bearer unnamed", "Bearer master", "Bearer anonymous", "Bearer both",
	})...)
	users := []string{"alice", "alice", "bob", "", " ", "system:anonymous", "a b", "système", "system:masters"}
	r.Headers = append(r.Headers,
		drawLines(t, "user", 2, []string{"X-Remote-User", "x-remote-user", "X-REMOTE-USER", "X_Remote_User", "X-Alt-User"}, users)...)
	r.Headers = append(r.Headers, drawLines(t, "uid", 1, []string{"X-Remote-Uid", "x-alt-uid"}, []string{"1", "2", ""})...)
	groups := []string{"dev", "dev", "dev,ops", "", "system:authenticated", "system:unauthenticated", "system:masters", "System:Masters",
		" system:masters"}
	r.Headers = append(r.Headers, drawLines(t, "group", 3, []string{"X-Remote-Group", "x-remote-group", "X-Alt-Group"}, groups)...)
	r.Headers = append(r.Headers, drawLines(t, "extra", 3, []string{
		"X-Remote-Extra-Scopes", "x-remote-extra-scopes", "X-Remote-Extra-Acme.Com%2Fproject", "X-Remote-Extra-", "X-Remote-Extra-%zz",
		"X-Alt-K", "X-Remote-Extra-K-1",
	}, []string{"v", "w", ""})...)
	return r
}

// drawLines draws lines of a header, up to a number.
func drawLines(t *rapid.T, what string, most int, names, values []string) (lines []string) {
	for range rapid.IntRange(0, most).Draw(t, what+" lines") {
		lines = append(lines, rapid.SampledFrom(names).Draw(t, what+" name")+": "+rapid.SampledFrom(values).Draw(t, what))
	}
	return lines
}
