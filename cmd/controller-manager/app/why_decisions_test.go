package app

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/standalone-kcm/controller-manager/internal/why"
)

// The manager that leads is asked first, and then an observer. A standby has decided nothing, and may remember. A kubelet can give a
// mirror pod of its node any name and labels.
func TestWhichManagerIsAsked(t *testing.T) {
	leaders := []string{"manager-1", "node-a"}
	pod := func(name, app, account string) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": app}},
			Spec:       corev1.PodSpec{NodeName: "node-b", ServiceAccountName: account},
		}
	}
	mirror := func(name, app, node string) corev1.Pod {
		p := pod(name, app, "")
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		p.Spec.NodeName, p.Spec.HostNetwork = node, true
		return p
	}
	for want, pods := range map[int][]corev1.Pod{
		leading:   {pod("manager-1", "controller-manager", "controller-manager"), mirror("kube-controller-manager-node-a", "", "node-a")},
		observing: {pod("controller-manager-observer-x", observer, observer)},
		standing:  {pod("manager-2", "controller-manager", "controller-manager")},
		mirrored: {
			mirror("kube-controller-manager-node-b", "", "node-b"), mirror("manager-1", "controller-manager", "node-b"),
			mirror("node-a", "", "node-b"), mirror("x", observer, "node-b"),
		},
		stranger: {
			pod("manager-1", "controller-manager", "default"), pod("x", observer, "default"),
		},
	} {
		for _, p := range pods {
			if got := rank(p, leaders); got != want {
				t.Errorf("%s on %s: %d, want %d", p.Name, p.Spec.NodeName, got, want)
			}
		}
	}
}

// The pods of the overlay standalone have the labels of our manifests and those of kubeadm.
func TestEachPodIsAskedOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !strings.HasSuffix(r.URL.Path, "/pods") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","items":[
			{"metadata":{"name":"a","uid":"1"},"status":{"phase":"Running"}}, {"metadata":{"name":"b","uid":"2"},"status":{"phase":"Running"}},
			{"metadata":{"name":"c","uid":"3"},"status":{"phase":"Pending"}}]}`)
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	clusters := map[string]*api.Cluster{"c": {Server: server.URL}}
	contexts := map[string]*api.Context{"c": {Cluster: "c"}}
	if err := clientcmd.WriteToFile(api.Config{Clusters: clusters, Contexts: contexts, CurrentContext: "c"}, kubeconfig); err != nil {
		t.Fatal(err)
	}
	a, err := (&whyOptions{kubeconfig: kubeconfig}).asker()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	pods, err := a.ranked(t.Context())
	if err != nil {
		t.Error(err)
	}
	for _, p := range pods {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("%q", names)
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

// A client certificate goes through the tunnel, and what is about the API server does not. A token goes only if the caller says so, and
// nothing if that impersonates somebody.
func TestCredentialsThroughTheTunnel(t *testing.T) {
	certificate := rest.TLSClientConfig{ServerName: "server", CAData: []byte("ca"), CertData: []byte("c"), KeyData: []byte("k")}
	both := &rest.Config{Host: "https://server", APIPath: "/x", BearerToken: "t", TLSClientConfig: certificate,
		ExecProvider: &api.ExecConfig{Command: "login"}}
	token := &rest.Config{Host: "https://server", BearerToken: "t"}
	impersonates := &rest.Config{TLSClientConfig: certificate, Impersonate: rest.ImpersonationConfig{UserName: "admin"}}
	for _, c := range []struct {
		name      string
		config    *rest.Config
		sendToken bool
		token     string
		none      bool
	}{
		{"a certificate, and not the token", both, false, "", false},
		{"both", both, true, "t", false},
		{"a token", token, true, "t", false},
		{"no token", token, false, "", true},
		{"an impersonation", impersonates, true, "", true},
	} {
		got := throughTunnel(c.config, c.sendToken)
		if (got == nil) != c.none {
			t.Errorf("%s: %+v", c.name, got)
		}
		if got == nil {
			continue
		}
		if got.Host+got.APIPath+got.ServerName+string(got.CAData) != "" || !got.Insecure || got.BearerToken != c.token ||
			(got.ExecProvider != nil) != (c.sendToken && c.config.ExecProvider != nil) ||
			string(got.CertData) != string(c.config.CertData) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
