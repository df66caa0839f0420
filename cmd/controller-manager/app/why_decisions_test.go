package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/internal/why"
)

// The manager that leads is asked first, and then an observer. A standby, which has decided nothing, is not asked.
func TestWhichManagerIsAsked(t *testing.T) {
	leaders := []string{"manager-1", "node-a"}
	pod := func(name, app, node string) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": app}},
			Spec:       corev1.PodSpec{NodeName: node, HostNetwork: app == ""},
		}
	}
	for want, pods := range map[int][]corev1.Pod{
		leading:   {pod("manager-1", "controller-manager", "node-b"), pod("kube-controller-manager-node-a", "", "node-a")},
		observing: {pod("controller-manager-observer-x", observer, "node-a")},
		standby:   {pod("manager-2", "controller-manager", "node-a"), pod("kube-controller-manager-node-b", "", "node-b")},
	} {
		for _, p := range pods {
			if got := rank(p, leaders); got != want {
				t.Errorf("%s: %d, want %d", p.Name, got, want)
			}
		}
	}
	pods := []corev1.Pod{pod("controller-manager-observer-x", observer, "node-a"), pod("manager-1", "controller-manager", "node-b")}
	slices.SortStableFunc(pods, func(a, b corev1.Pod) int { return rank(a, leaders) - rank(b, leaders) })
	if pods[0].Name != "manager-1" {
		t.Errorf("%s is asked first", pods[0].Name)
	}
}

func TestAskDecision(t *testing.T) {
	var asked string
	status, answer := http.StatusOK, `{"controller":"deployment-controller","time":"2026-11-29T18:00:00Z","why":"waits","retries":3,
		"error":"refused","nextReconcileSeconds":7.5,"inferred":true,"steps":["create"]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.EscapedPath()
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	ask := func(about why.Ref) (why.Decision, bool, error) {
		return askDecision(t.Context(), server.Client(), server.URL+"/debug/explain", about)
	}
	web := why.Ref{Kind: "Deployment", Namespace: "shop", Name: "web"}
	d, ok, err := ask(web)
	if err != nil || !ok || d.Controller != "deployment-controller" || d.Why != "waits" || d.Failures != 3 || d.Error != "refused" ||
		d.NextSeconds != 7.5 || !d.Inferred || len(d.Steps) != 1 || d.Object != web {
		t.Errorf("%+v, %v, %v", d, ok, err)
	}
	if asked != "/debug/explain/deployment/shop/web" {
		t.Errorf("asked for %s", asked)
	}
	if _, _, err := ask(why.Ref{Kind: "Node", Name: "a/b"}); err != nil || asked != "/debug/explain/node/a%2Fb" {
		t.Errorf("asked for %s, %v", asked, err)
	}
	answer = "{}"
	if _, ok, err := ask(web); ok || err != nil {
		t.Errorf("an answer without a decision: %v, %v", ok, err)
	}
	for code, fails := range map[int]bool{http.StatusNotFound: false, http.StatusForbidden: true, http.StatusInternalServerError: true} {
		status = code
		if _, ok, err := ask(web); ok || (err != nil) != fails {
			t.Errorf("%d: %v, %v", code, ok, err)
		}
	}
	status, answer = http.StatusOK, "<html>"
	if _, _, err := ask(web); err == nil {
		t.Error("no JSON is an answer")
	}
}

// What is about the API server does not go through the tunnel, and the credentials do.
func TestCredentialsThroughTheTunnel(t *testing.T) {
	c := throughTunnel(&rest.Config{Host: "https://server", APIPath: "/x", BearerToken: "t",
		TLSClientConfig: rest.TLSClientConfig{ServerName: "server", CAData: []byte("ca"), CAFile: "f", CertData: []byte("c"), KeyData: []byte("k")}})
	if c.Host+c.APIPath+c.ServerName+c.CAFile+string(c.CAData) != "" || !c.Insecure || c.BearerToken != "t" || len(c.CertData) == 0 ||
		len(c.KeyData) == 0 {
		t.Errorf("%+v", c)
	}
	if _, err := rest.TransportFor(&rest.Config{TLSClientConfig: c.TLSClientConfig}); err == nil || !strings.Contains(err.Error(), "failed to find any PEM") {
		t.Error(err)
	}
}
