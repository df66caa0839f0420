package proxy

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/standalone-kcm/controller-manager/test/cluster/apirequest"
)

func TestRulesMatch(t *testing.T) {
	pod := Request{apirequest.Request{Verb: "create", Resource: "pods", Namespace: "shop", Name: "web-1"}, "kcm/replicaset-controller"}
	status := Request{Request: apirequest.Request{Verb: "update", Group: "apps", Resource: "deployments", Subresource: "status", Namespace: "shop", Name: "web"}}
	event := Request{Request: apirequest.Request{Verb: "event", Resource: "pods", Namespace: "shop", Name: "web-1"}}
	lease := Request{Request: apirequest.Request{Verb: "update", Resource: "leases", Namespace: "kube-system", Name: "kcm"}}
	for _, row := range []struct {
		rule    string
		request Request
		want    bool
	}{
		{"create pods : cut", pod, true},
		{"create,update services,pods : cut", pod, true},
		{"update pods : cut", pod, false},
		{"* * : cut", pod, true},
		{"* * : cut", event, false},
		{"event pods : cut", event, true},
		{"write * : cut", pod, true},
		{"write * : cut", lease, false},
		{"* leases : cut", lease, true},
		{"update deployments : cut", status, false},
		{"update deployments/status : cut", status, true},
		{"update deployments/* : cut", status, true},
		{"create pods agent=replicaset : cut", pod, true},
		{"create pods agent=deployment : cut", pod, false},
		{"create pods namespace=shop name=web : cut", pod, true},
		{"create pods name=api : cut", pod, false},
		{"create pods after=2s : cut", pod, false},
		{"create pods for=1s : cut", pod, true},
	} {
		s := parse(t, row.rule)
		s.start(time.Unix(0, 0))
		if got := s.decide(row.request, time.Unix(0, 5e8)) != nil; got != row.want {
			t.Errorf("%q matches %q: %t", row.rule, row.request, got)
		}
	}
}

func TestRulesCount(t *testing.T) {
	for _, row := range []struct{ rule, want string }{
		{"create pods nth=3 : cut", "..x......."},
		{"create pods every=4 : cut", "...x...x.."},
		{"create pods times=2 : cut", "xx........"},
		{"create pods every=2 times=2 : cut", ".x.x......"},
		{"seed 7\ncreate pods p=0.5 : cut", "" /* any, but the same each time and neither all nor none */},
	} {
		var got [2]strings.Builder
		for i := range got {
			s := parse(t, row.rule)
			for range 10 {
				if s.decide(Request{Request: apirequest.Request{Verb: "create", Resource: "pods"}}, time.Now()) != nil {
					got[i].WriteByte('x')
				} else {
					got[i].WriteByte('.')
				}
			}
		}
		text := got[0].String()
		if row.want != "" && text != row.want || text != got[1].String() || !strings.Contains(text, "x") || !strings.Contains(text, ".") {
			t.Errorf("%q fires %s, then %s, want %s", row.rule, text, &got[1], row.want)
		}
	}
}

func TestProbabilityIsKept(t *testing.T) {
	s := parse(t, "seed 3\n* * p=0.2 : cut")
	fired := 0
	for range 10000 {
		if s.decide(Request{Request: apirequest.Request{Verb: "get"}}, time.Now()) != nil {
			fired++
		}
	}
	if fired < 1800 || fired > 2200 {
		t.Errorf("%d of 10000 with p=0.2", fired)
	}
}

func TestBadScripts(t *testing.T) {
	for _, text := range []string{
		"create pods", "create : cut", "create pods : jump", "create pods : delay", "create pods : delay soon", "create pods x=1 : cut",
		"create pods nth=x : cut", "create pods : answer", "create pods : cut 1s", "seed x", "create pods nth : cut", "create pods : commit",
	} {
		if s, err := Parse(text); err == nil {
			t.Errorf("%q is read as %q", text, s)
		}
	}
}

func TestGeneratedScriptsAreReadAndRepeat(t *testing.T) {
	kinds := map[string]bool{}
	for seed := range uint64(300) {
		s, err := Generate(seed, 10*time.Second, 5*time.Second)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		again, err := Generate(seed, 10*time.Second, 5*time.Second)
		if err != nil || again.String() != s.String() {
			t.Errorf("seed %d: once\n%s\nthen\n%s", seed, s, again)
		}
		if read := parse(t, s.String()); read.String() != s.String() || read.Seed != seed {
			t.Errorf("seed %d: written\n%s\nread\n%s", seed, s, read)
		}
		for _, r := range s.Rules {
			kinds[r.action.Name] = true
		}
	}
	for _, kind := range []string{"delay", "freeze", "drop", "gone", "answer", "commit timeout", "commit cut", "commit hang", "cut", "reset"} {
		if !kinds[kind] {
			t.Errorf("no script of 300 has the action %q", kind)
		}
	}
}

func TestRequestsAreParsed(t *testing.T) {
	for _, row := range []struct{ method, url, want, path string }{
		{"GET", "/api/v1/pods?watch=true", "watch pods only/", "/api/v1/namespaces/only/pods"},
		{"GET", "/apis/apps/v1/replicasets", "list replicasets only/", "/apis/apps/v1/namespaces/only/replicasets"},
		{"GET", "/api/v1/nodes", "list nodes ", ""},
		{"GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles?watch=true", "watch clusterroles ", ""},
		{"GET", "/api/v1/namespaces?watch=true", "watch namespaces ", "/api/v1/namespaces"},
		{"GET", "/apis/certificates.k8s.io/v1/certificatesigningrequests", "list certificatesigningrequests ", ""},
		{"GET", "/api/v1/namespaces/shop/pods/web", "get pods shop/web", ""},
		{"GET", "/api/v1/namespaces/shop/pods", "list pods shop/", ""},
		{"PUT", "/apis/apps/v1/namespaces/shop/deployments/web/status", "update deployments/status shop/web", ""},
		{"PATCH", "/api/v1/namespaces/shop/status", "patch namespaces/status shop", ""},
		{"DELETE", "/api/v1/namespaces/shop/pods", "deletecollection pods shop/", ""},
		{"POST", "/api/v1/namespaces/shop/pods", "create pods shop/", ""},
		{"GET", "/healthz", "get  ", ""},
	} {
		r := httptest.NewRequest(row.method, row.url, http.NoBody)
		got := parseRequest(r, "only").String()
		if selector := r.URL.Query().Get("fieldSelector"); (selector == "metadata.name=only") != strings.Contains(got, " namespaces ") {
			t.Errorf("%s %s selects %q", row.method, row.url, selector)
		}
		marked := strings.Contains(got, " certificatesigningrequests ") || strings.Contains(got, " clusterroles ")
		if selector := r.URL.Query().Get("labelSelector"); (selector == OfNamespace+"=only") != marked {
			t.Errorf("%s %s selects %q", row.method, row.url, selector)
		}
		if row.path == "" {
			row.path, _, _ = strings.Cut(row.url, "?")
		}
		if got != row.want || r.URL.Path != row.path {
			t.Errorf("%s %s is %q with path %s, want %q and %s", row.method, row.url, got, r.URL.Path, row.want, row.path)
		}
	}
}

func parse(t *testing.T, text string) *Script {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ExampleParse() {
	s, err := Parse("seed 42\nevent pods nth=3 : freeze 10s # a comment\n\nwrite * p=0.1 : answer 429 2")
	fmt.Println(s, err)
	// Output:
	// seed 42
	// event pods nth=3 : freeze 10s
	// write * p=0.1 : answer 429 2 <nil>
}
