package listwatch

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/internal/projection"
)

// Leases are read in portions, and must not hold up anything else.
func TestLeasesHaveAConnectionOfTheirOwn(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		version, kind := "v1", "NodeList"
		if r.URL.Path == "/apis/coordination.k8s.io/v1/leases" {
			version, kind = "coordination.k8s.io/v1", "LeaseList"
		}
		// The address of the client stands for the connection.
		fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{"continue":%q},"items":[]}`, version, kind, r.RemoteAddr)
	}))
	defer server.Close()
	c, err := NewClient(&rest.Config{Host: server.URL}, &projection.Projection{})
	if err != nil {
		t.Fatal(err)
	}
	over := func(group schema.GroupVersion, kind, resource string) string {
		lw, err := c.ListWatch(group.WithKind(kind), group.WithResource(resource), "", resource)
		if err != nil {
			t.Fatal(err)
		}
		list, err := lw.ListWithContext(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return list.(metav1.ListMetaAccessor).GetListMeta().GetContinue()
	}
	nodes := over(corev1.SchemeGroupVersion, "Node", "nodes")
	leases := over(coordinationv1.SchemeGroupVersion, "Lease", "leases")
	if again := over(corev1.SchemeGroupVersion, "Node", "nodes"); nodes == "" || nodes != again || leases == "" || leases == nodes {
		t.Errorf("nodes over %q and %q, Leases over %q", nodes, again, leases)
	}
}
