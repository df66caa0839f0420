package identity

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// saysForbidden is how the API server says so, in JSON.
func saysForbidden(message string) string {
	status, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Message: message,
		Reason: metav1.StatusReasonForbidden, Code: 403,
	})
	if err != nil {
		panic(err)
	}
	return string(status)
}

// withoutRight is how it says that somebody lacks a right. The object is the resource, and the name if the request has one.
func withoutRight(object string) string {
	return saysForbidden(object + ` is forbidden: User "x" cannot create resource "pods" in API group "" in the namespace "n"`)
}

// forged is the name of a claim that a StatefulSet asks for, in the name of its template.
const forged = `x" is forbidden: User "x" cannot create resource "persistentvolumeclaims" in API group "`

// TestRefusalsOfAdmission: what is refused because of the object says nothing about the rights of who asks.
func TestRefusalsOfAdmission(t *testing.T) {
	for _, test := range []struct {
		name, method, path, text string
		want                     string
	}{
		{"a right", "POST", "/api/v1/namespaces/n/pods", withoutRight("pods"), "create pods: 403 Forbidden"},
		{"a read", "GET", "/api/v1/namespaces/n/pods/p", withoutRight(`pods "p"`), ""},
		{"a quota", "POST", "/api/v1/namespaces/n/pods", saysForbidden(`pods "a" is forbidden: exceeded quota: q`), ""},
		{"a policy that quotes what a tenant has written", "POST", "/api/v1/namespaces/n/pods",
			saysForbidden(
				`pods "a" is forbidden: violates PodSecurity "baseline:latest": seLinuxOptions (pod set forbidden type "pods is forbidden: User "x" cannot create resource "pods"")`), ""},
		{"a webhook", "POST", "/api/v1/namespaces/n/pods",
			saysForbidden(`admission webhook "w" denied the request: pods is forbidden: User "x" cannot create resource "pods"`), ""},
		{"a name that a tenant has given", "POST", "/api/v1/namespaces/n/persistentvolumeclaims",
			saysForbidden(`persistentvolumeclaims "` + forged + `-web-0" is forbidden: exceeded quota: q`), ""},
		{"another object", "PATCH", "/api/v1/namespaces/n/pods/p", withoutRight(`pods "q"`), ""},
		{"a proxy", "POST", "/api/v1/namespaces/n/pods", `<html>pods is forbidden: User "x" cannot create resource "pods"</html>`, ""},
		{"a namespace that is being deleted", "POST", "/api/v1/namespaces/n/pods",
			saysForbidden(`pods "a" is forbidden: unable to create new content`), ""},
		{"an object of the cluster", "PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/a",
			withoutRight(`clusterroles.rbac.authorization.k8s.io "a"`),
			"patch clusterroles.rbac.authorization.k8s.io: 403 Forbidden"},
		{"a namespace", "PUT", "/api/v1/namespaces/n/finalize", withoutRight(`namespaces "n"`),
			"update namespaces/finalize: 403 Forbidden"},
		{"a subresource", "PUT", "/apis/apps/v1/namespaces/n/deployments/d/status", withoutRight(`deployments.apps "d"`),
			"update deployments.apps/status: 403 Forbidden"},
	} {
		bubble(t, func(t *testing.T) {
			var r Refusals
			wrapped := r.WrapWrites(roundTripper(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusForbidden, Body: io.NopCloser(strings.NewReader(test.text))}, nil
			}))
			log := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			for range 5 {
				req, err := http.NewRequestWithContext(klog.NewContext(t.Context(), log), test.method, "http://api"+test.path, nil)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := wrapped.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				if body, err := io.ReadAll(answer.Body); err != nil || string(body) != test.text {
					t.Errorf("%s: the caller reads %q, %v", test.name, body, err)
				}
				time.Sleep(time.Minute)
			}
			got, logged := "", 0
			if err := r.Any(); err != nil {
				got, logged = err.Error(), 1
			}
			if want := strings.TrimSpace("the API server refuses to let this process " + test.want); test.want == "" && got != "" ||
				test.want != "" && got != want {
				t.Errorf("%s: %q", test.name, got)
			}
			if n := r.Count(); n != logged {
				t.Errorf("%s: %d kinds of requests", test.name, n)
			}
			text := log.GetSink().(ktesting.Underlier).GetBuffer().String()
			if n := strings.Count(text, "The API server lastingly refuses"); n != logged {
				t.Errorf("%s: logged %d times\n%s", test.name, n, text)
			}
		})
	}
}

// TestRefusals: what is refused for a while, and until now, is told, by verb and resource.
func TestRefusals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var r Refusals
		status := 0
		wrapped := r.Wrap(roundTripper(func(of *http.Request) (*http.Response, error) {
			if status == 0 {
				return nil, errors.New("connection refused")
			}
			text := withoutRight(map[bool]string{true: "leases.coordination.k8s.io",
				false: "pods"}[strings.Contains(of.URL.Path, "leases")])
			if _, parts := split(of.URL.Path); len(parts) == 4 {
				text = strings.Replace(text, " is forbidden", ` \"`+parts[3]+`\" is forbidden`, 1)
			}
			return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text))}, nil
		}))
		ask := func(code int, method, path string) {
			status = code
			req, err := http.NewRequestWithContext(t.Context(), method, "http://api"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := wrapped.RoundTrip(req)
			if err == nil && answer.StatusCode != code || (err == nil) != (code != 0) {
				t.Errorf("it came back as %v, %v", answer, err)
			}
		}
		told := func(when, resource, want string) {
			t.Helper()
			got := ""
			if err := r.Of(resource); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		const pod, other, lease = "/api/v1/namespaces/n/pods/p", "/api/v1/namespaces/n/pods/q",
			"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x"
		told("nothing was asked", "pods", "")
		ask(403, "GET", pod)
		told("once", "pods", "")
		time.Sleep(9 * time.Second)
		ask(403, "GET", other)
		told("for 9s", "pods", "")
		time.Sleep(time.Second)
		ask(0, "GET", pod) // says nothing
		ask(403, "GET", pod)
		told("for 10s", "pods", "the API server refuses to let this process get pods: 403 Forbidden")
		told("something else", "nodes", "")
		ask(200, "PUT", pod)
		told("something else of it is allowed", "pods", "the API server refuses to let this process get pods: 403 Forbidden")
		time.Sleep(2 * time.Minute)
		told("after 2m", "pods", "the API server refuses to let this process get pods: 403 Forbidden")
		time.Sleep(time.Second)
		told("not asked any more", "pods", "")
		ask(403, "GET", pod)
		told("asked again after a long time", "pods", "")
		ask(403, "PATCH", pod)
		time.Sleep(30 * time.Second)
		ask(401, "GET", pod)
		ask(401, "PATCH", pod)
		told("two things", "pods", "the API server refuses to let this process get pods: 401 Unauthorized\n"+
			"the API server refuses to let this process patch pods: 401 Unauthorized")
		ask(200, "GET", pod)
		ask(500, "PATCH", pod)
		told("neither is refused any more", "pods", "")

		for method, verb := range map[string]string{"GET": "get", "PUT": "update", "DELETE": "delete"} {
			ask(403, method, "/base"+lease)
			time.Sleep(time.Minute)
			ask(403, method, "/base"+lease)
			told(method, "leases.coordination.k8s.io",
				"the API server refuses to let this process "+verb+" leases.coordination.k8s.io: 403 Forbidden")
			ask(200, method, lease)
		}
		ask(403, "POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")
		time.Sleep(time.Minute)
		ask(403, "POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")
		told("POST", "leases.coordination.k8s.io",
			"the API server refuses to let this process create leases.coordination.k8s.io: 403 Forbidden")
	})
}

// A webhook may answer 401, too: that is about the object.
func TestUnauthorizedByAWebhook(t *testing.T) {
	for text, want := range map[string]int{`admission webhook "w" denied the request: no`: 0, "Unauthorized": 1} {
		bubble(t, func(t *testing.T) {
			var r Refusals
			wrapped := r.WrapWrites(roundTripper(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusUnauthorized, Body: io.NopCloser(strings.NewReader(saysForbidden(text)))}, nil
			}))
			for range 3 {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://api/api/v1/namespaces/n/pods", nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := wrapped.RoundTrip(req); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
			}
			if got := r.Count(); got != want {
				t.Errorf("%s: %d kinds of requests are refused", text, got)
			}
		})
	}
}
