package integration

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// scrape asks the manager's server for metrics, as an account that may have them, and as one that may not (MH-5, RB-11).
func (b *bench) scrape(port int) {
	b.Helper()
	accounts := b.Client.CoreV1().ServiceAccounts(b.ns)
	for _, name := range []string{"scraper", "stranger"} {
		if _, err := accounts.Create(b.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: b.ns + "-scraper"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:monitoring"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: b.ns, Name: "scraper"}}}
	if _, err := b.Client.RbacV1().ClusterRoleBindings().Create(b.Context(), binding, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := b.Client.RbacV1().ClusterRoleBindings().Delete(context.Background(), binding.Name, metav1.DeleteOptions{}); err != nil {
			b.Error(err)
		}
	})
	for name, want := range map[string]int{"scraper": http.StatusOK, "stranger": http.StatusForbidden} {
		token := strings.TrimSpace(b.Kubectl(b.T, "-n", b.ns, "create", "token", name))
		b.wait(fmt.Sprintf("%s gets %d for /metrics", name, want), func() error {
			return answers(b.Context(), fmt.Sprintf("https://127.0.0.1:%d/metrics", port), token, want)
		})
	}
}

// answers says how an answer differs from what is wanted. The server's certificate is its own.
func answers(ctx context.Context, url, token string, want int) error {
	transport, err := rest.TransportFor(&rest.Config{BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != want {
		return fmt.Errorf("%s: %s, want %d", url, answer.Status, want)
	}
	return nil
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}
