// Package differential compares our server with the handlers of k8s.io/apiserver, of which kube-controller-manager's own is made:
// the same requests get the same verdict, and the API server is asked about the same users (MH-2, MH-3, CLI-35..39).
package differential

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
)

func TestMain(m *testing.M) {
	klog.SetLogger(klog.Logger{}) // both sides log what they refuse
	os.Exit(m.Run())
}

// request is what a client sends.
type request struct {
	Cert    string // a name in [clientCertificates]; empty: none
	Method  string
	Target  string
	Headers []string // lines, in this order
}

// verdict is what becomes of a request.
type verdict struct {
	Code     int                                       // 200 if the handler was reached, 401, 403, 500, or 400 if net/http refuses it
	Accesses []authorizationv1.SubjectAccessReviewSpec // what the API server was asked: who wants what
	Tokens   []string                                  // whose owners it was asked for
}

// send sends a request as it is, without the corrections of an HTTP client, and returns what became of it.
func (s *side) send(r request) (verdict, error) {
	s.api.forget()
	config := &tls.Config{InsecureSkipVerify: true}
	if r.Cert != "" { // also if the server does not ask for one like it
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return clientCertificates()[r.Cert],
				nil
		}
	}
	conn, err := tls.Dial("tcp", s.address, config)
	if err != nil {
		return verdict{}, err
	}
	defer conn.Close()
	lines := append([]string{r.Method + " " + r.Target + " HTTP/1.1", "Host: differential"}, r.Headers...)
	if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil {
		return verdict{}, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: r.Method})
	if err != nil {
		return verdict{}, err
	}
	defer answer.Body.Close()
	v := verdict{Code: answer.StatusCode}
	if v.Code == http.StatusNotFound { // ours has no handler for it, but has let the client in
		v.Code = http.StatusOK
	}
	v.Accesses, v.Tokens = s.api.asked()
	return v, nil
}

// both sends a request to both sides.
func both(t interface{ Fatal(...any) }, ours, theirs *side, r request) (our, their verdict) {
	our, err := ours.send(r)
	if err != nil {
		t.Fatal("ours: ", err)
	}
	if their, err = theirs.send(r); err != nil {
		t.Fatal("theirs: ", err)
	}
	return our, their
}

// TestGeneratedRequests: whatever the settings are, clients are treated alike.
func TestGeneratedRequests(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		set := drawSettings(rt)
		ours, ourErr := newOurs(set)
		defer ours.close()
		theirs, theirErr := newTheirs(set)
		defer theirs.close()
		if (ourErr == nil) != (theirErr == nil) {
			rt.Fatalf("ours does not start: %v; theirs: %v", ourErr, theirErr)
		}
		if ourErr != nil {
			seen["refused settings"]++
			return
		}
		for range 10 {
			r := drawRequest(rt)
			our, their := both(rt, ours, theirs, r)
			if diff := cmp.Diff(their, our); diff != "" {
				rt.Fatalf("%+v\n(- theirs, + ours):\n%s", r, diff)
			}
			seen[fmt.Sprint(our.Code)]++
			for _, access := range our.Accesses {
				seen[access.User]++
			}
		}
	})
	// Otherwise the draws are not what the test is for.
	for _, kind := range []string{"200", "401", "403", "500", "alice", "bob", "system:anonymous", "prometheus", "refused settings"} {
		if seen[kind] < 3 {
			t.Errorf("only %d cases of %q: %v", seen[kind], kind, seen)
		}
	}
	t.Log(seen)
}

// TestIntendedDifferences names what differs on purpose. All else that differs is a mistake.
func TestIntendedDifferences(t *testing.T) {
	encoded := base64.RawURLEncoding.EncodeToString([]byte("scraper"))
	for _, test := range []struct {
		name  string
		r     request
		our   int
		their int
	}{
		{
			"there are no WebSockets here, and tokens are not taken from their subprotocols",
			request{Method: "GET", Target: "/sar/deny-anonymous", Headers: []string{
				"Upgrade: websocket", "Connection: Upgrade",
				"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io." + encoded + ", v4"}},
			403, 200,
		},
		{
			"an API server that is not available is asked again",
			request{Method: "GET", Target: "/sar/unavailable"}, 200, 500,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			ours, theirs := pairOf(t, usualSettings())
			our, their := both(t, ours, theirs, test.r)
			if our.Code != test.our || their.Code != test.their {
				t.Errorf("ours %+v, theirs %+v", our, their)
			}
		})
	}
}

// TestSettingsThatAreRefused: what is wrong in the ConfigMap counts as far as it is looked up.
func TestSettingsThatAreRefused(t *testing.T) {
	badList := map[string]string{"requestheader-allowed-names": `proxy`}
	for _, test := range []struct {
		name    string
		set     settings
		refused bool
	}{
		{"CLI-36 a list that is none, without authorities", settings{Asks: true, ConfigMap: badList}, true},
		{"CLI-36 that is not needed", settings{Asks: true, ConfigMap: badList, ProxyCA: "proxies"}, false},
		{"CLI-36 that is not looked up", settings{Asks: true, ConfigMap: badList, SkipLookup: true}, false},
		{"CLI-38 a star in the middle", settings{AlwaysAllow: []string{"/a*b"}}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			ours, ourErr := newOurs(test.set)
			defer ours.close()
			theirs, theirErr := newTheirs(test.set)
			defer theirs.close()
			if (ourErr != nil) != test.refused || (theirErr != nil) != test.refused {
				t.Errorf("ours: %v; theirs: %v", ourErr, theirErr)
			}
		})
	}
}

// TestAnAPIServerThatIsBusy: both ask again. The draws have only errors that are final, because between tries ours waits.
func TestAnAPIServerThatIsBusy(t *testing.T) {
	ours, theirs := pairOf(t, usualSettings())
	for _, r := range []request{
		{Method: "GET", Target: "/sar/busy"},
		{Method: "GET", Target: "/sar/allow", Headers: []string{"Authorization: Bearer busy"}},
	} {
		our, their := both(t, ours, theirs, r)
		if our.Code != http.StatusOK || their.Code != http.StatusOK {
			t.Errorf("%+v: ours %d, theirs %d", r, our.Code, their.Code)
		}
	}
}

// TestUsualRequests has the verdicts that both sides must reach, so that they do not agree on nonsense.
func TestUsualRequests(t *testing.T) {
	ours, theirs := pairOf(t, usualSettings())
	master := []string{"X-Remote-User: eve", "X-Remote-Group: system:masters"}
	for _, test := range []struct {
		name string
		r    request
		code int
		who  string // whom the API server is asked about; empty: nobody
	}{
		{"MH-3 nobody", request{Target: "/sar/allow"}, 200, "system:anonymous"},
		{"MH-3 nobody, forbidden", request{Target: "/sar/deny"}, 403, "system:anonymous"},
		{"MH-3 no opinion", request{Target: "/sar/none"}, 403, "system:anonymous"},
		{"MH-3 an answer that contradicts itself", request{Target: "/sar/both"}, 500, "system:anonymous"},
		{"MH-3 an error", request{Target: "/sar/error"}, 500, "system:anonymous"},
		{"CLI-38 always allowed", request{Target: "/healthz"}, 200, ""},
		{"CLI-38 spelled otherwise", request{Target: "/%68ealthz?x"}, 200, ""},
		{"CLI-38 not cleaned", request{Target: "/sar/deny/../../healthz"}, 403, "system:anonymous"},
		{"CLI-38 a prefix", request{Target: "/open/sar/deny"}, 200, ""},
		{"MH-2 a token", request{Target: "/sar/allow", Headers: []string{"authorization: bearer scraper"}}, 200, "prometheus"},
		{"MH-2 a token that is not good", request{Target: "/healthz", Headers: []string{"Authorization: Bearer forged"}}, 401, ""},
		{"CLI-39 a certificate", request{Cert: "alice", Target: "/sar/allow"}, 200, "alice"},
		{"CLI-39 a certificate before a token",
			request{Cert: "alice", Target: "/sar/allow", Headers: []string{"Authorization: Bearer scraper"}}, 200, "alice"},
		{"CLI-39 a certificate of strangers", request{Cert: "stranger", Target: "/healthz"}, 401, ""},
		{"CLI-39 a member of system:masters", request{Cert: "master", Target: "/sar/deny"}, 200, ""},
		{"CLI-39 headers of a client", request{Cert: "alice", Target: "/sar/deny", Headers: master}, 403, "alice"},
		{"CLI-39 headers of a front proxy", request{Cert: "proxy", Target: "/sar/deny", Headers: master}, 200, ""},
		{"CLI-39 a front proxy of another name", request{Cert: "other proxy", Target: "/sar/deny", Headers: master}, 401, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.r.Method = "GET"
			our, their := both(t, ours, theirs, test.r)
			if diff := cmp.Diff(their, our); diff != "" {
				t.Errorf("(- theirs, + ours):\n%s", diff)
			}
			who := ""
			for _, access := range our.Accesses {
				who = access.User
			}
			if our.Code != test.code || who != test.who {
				t.Errorf("got %+v", our)
			}
		})
	}
}
