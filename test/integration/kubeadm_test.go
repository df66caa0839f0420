package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// TestKubeadm runs the manager with exactly the arguments, files and rights that kubeadm gives to it, on an API server with exactly
// kubeadm's admission (CLI-75 to CLI-80). Each controller of this build runs, no health check fails, and work gets done.
func TestKubeadm(t *testing.T) {
	t.Parallel() // on another control plane
	shared := cluster.Start(t)
	if os.Getenv("MANAGER_BINARY") != "" {
		t.Skip("it is about ours")
	}
	c := shared.StartLikeKubeadm(t)
	b := &bench{t, c, c.Namespace(t)}
	b.nodesAreTainted()
	args := kubeadmArgs(t)
	port := strconv.Itoa(freePort(t))
	m := c.ManagerExactly(t, append(filesOf(c, c.ManagerKubeconfig, args), "--secure-port="+port)...)
	s := &server{T: t, Cluster: c, manager: m, address: net.JoinHostPort("127.0.0.1", port)}

	names := enabled(servedControllers(t, c), args)
	b.wait("CLI-78: all controllers run, and /healthz says so to anybody", func() error { return s.allPass("/healthz", names...) })
	b.untaintNodes()
	b.create(deployment("web", 2))
	b.waitComplete("web")
	b.joins()
	b.aggregated()
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		b.wait("no check of "+path+" fails", func() error { return s.allPass(path) })
	}
	b.wait("no controller fails at an object", s.nothingFails)
	if code := m.Stop(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	requests, _ := c.Requests(t, 0)
	if n := b.refused(requests); n < 20 {
		t.Errorf("the audit log has only %d requests of the manager", n)
	}
}

// enabled are those of the controllers that the arguments turn on. "*" stands for those that are on by default.
func enabled(all []manager.Controller, args []string) (names []string) {
	i := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--controllers=") })
	items := strings.Split(strings.TrimPrefix(args[i], "--controllers="), ",")
	for _, entry := range all {
		if entry.Name == "node-ipam-controller" && !slices.Contains(args, "--allocate-node-cidrs=true") { // IPAM-1
			continue
		}
		if entry.OnByDefault() || slices.Contains(items, entry.Name) || slices.Contains(items, entry.Alias) {
			names = append(names, entry.Name)
		}
	}
	return names
}

// allPass says which of the named checks of a path are not there, or whether any check fails.
func (s *server) allPass(path string, names ...string) error {
	code, body, err := s.try(path+"?verbose", nil)
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		return fmt.Errorf("%s: %d\n%s", path, code, body)
	}
	for _, name := range names {
		if !strings.Contains(body, "[+]"+name+" ok\n") {
			return fmt.Errorf("%s does not run:\n%s", name, body)
		}
	}
	return nil
}

// nothingFails says which controllers have an object that they cannot reconcile.
func (s *server) nothingFails() error {
	pki := filepath.Join(s.Dir, "pki")
	admin, err := tls.LoadX509KeyPair(filepath.Join(pki, "admin.crt"), filepath.Join(pki, "admin.key"))
	if err != nil {
		return err
	}
	code, body, err := s.try("/metrics", nil, admin)
	if err != nil || code != http.StatusOK {
		return fmt.Errorf("/metrics: %d, %w", code, err)
	}
	seen := 0
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, "controller_manager_keys_failing{") {
			continue
		}
		if seen++; !strings.HasSuffix(line, " 0\n") {
			return errors.New(line)
		}
	}
	if seen == 0 {
		return errors.New("no such metric")
	}
	return nil
}

const notReady = "node.kubernetes.io/not-ready"

// nodesAreTainted checks that the API server has given the new nodes their taint: so admission is not that of other tests.
func (b *bench) nodesAreTainted() {
	b.Helper()
	nodes, err := b.Client.CoreV1().Nodes().List(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for _, node := range nodes.Items {
		if !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == notReady }) {
			b.Errorf("node %s has the taints %v, want one of the admission plugin TaintNodesByCondition", node.Name, node.Spec.Taints)
		}
	}
	if len(nodes.Items) == 0 {
		b.Error("no nodes")
	}
}

// untaintNodes does for the nodes what node-lifecycle-controller does, unless this build has that.
func (b *bench) untaintNodes() {
	b.Helper()
	if !slices.ContainsFunc(controllers.Registry(), func(c manager.Controller) bool { return c.Name == "node-lifecycle-controller" }) {
		b.Kubectl(b.T, "taint", "nodes", "--all", notReady+"-")
	}
}

// joins has somebody ask with a token of the kind that kubeadm makes for nodes that join.
func (b *bench) joins() {
	b.Helper()
	token := b.bootstrapToken("abcdef", "system:bootstrappers:kubeadm:default-node-token")
	b.wait("the token is known", func() error {
		return answers(b.Context(), b.Server+"/api/v1/nodes", token, http.StatusForbidden) // and not 401
	})
}

// aggregated serves an API that the API server hands requests on to, with a certificate of its own, and the name of who asks.
func (b *bench) aggregated() {
	b.Helper()
	asked := make(chan string, 1)
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/apis/test.example.com/v1/things" {
			fmt.Fprintln(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"test.example.com/v1","resources":[]}`)
			return
		}
		select {
		case asked <- fmt.Sprint(r.TLS.PeerCertificates[0].Subject.CommonName, " for ", r.Header.Get("X-Remote-User"), " of ",
			r.Header.Get("X-Remote-Group")):
		default:
		}
		fmt.Fprintln(w, `{"kind":"ThingList","apiVersion":"test.example.com/v1","items":[]}`)
	}))
	ca, err := os.ReadFile(b.FrontProxyCAFile())
	if err != nil {
		b.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(ca)
	api.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	api.StartTLS()
	b.Cleanup(api.Close)

	_, port, err := net.SplitHostPort(api.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Apply(b.T, b.ns, fmt.Sprintf(`{"apiVersion":"v1","kind":"List","items":[
		{"apiVersion":"v1","kind":"Service","metadata":{"name":"api"},"spec":{"type":"ExternalName","externalName":"localhost"}},
		{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.test.example.com"},"spec":{
			"group":"test.example.com","version":"v1","groupPriorityMinimum":1000,"versionPriority":1,"insecureSkipTLSVerify":true,
			"service":{"namespace":%q,"name":"api","port":%s}}}]}`, b.ns, port))
	b.Cleanup(func() {
		err := b.Client.Discovery().RESTClient().Delete().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices/v1.test.example.com").Do(
			context.Background()).Error()
		if err != nil {
			b.Error(err)
		}
	})
	b.wait("the API server hands requests on", func() error {
		_, err := b.TryKubectl(b.T, "get", "--raw", "/apis/test.example.com/v1/things")
		return err
	})
	if got, want := <-asked, "front-proxy-client for kubernetes-admin of system:masters"; got != want {
		b.Errorf("the aggregated API was asked by %s, want %s", got, want)
	}
}
