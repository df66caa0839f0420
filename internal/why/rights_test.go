package why

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
)

// viewer may not list Nodes, as who has the role view.
type viewer struct{ *clienttest.Server }

func (s viewer) List(ctx context.Context, m client.Mapping, at string, o metav1.ListOptions, into runtime.Object) error {
	if m.Kind == "Node" {
		return apierrors.NewForbidden(m.GroupResource(), "", errors.New("no right"))
	}
	return s.Server.List(ctx, m, at, o, into)
}

// Nodes that may not be read are not said to be too small.
func TestNodesThatMayNotBeRead(t *testing.T) {
	s := clienttest.NewServer()
	p := newPod(unschedulable("0/9 nodes are available: 9 Insufficient cpu."))
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	if _, err := s.Put(p); err != nil {
		t.Fatal(err)
	}
	a, err := Ask(t.Context(), viewer{s}, resources{}, time.Now(), Question{client.KindFor[*corev1.Pod](), ns, p.Name})
	if err != nil || a.Cause == nil || a.Cause.Reason == "TooLarge" || strings.Contains(a.Summary, "has 0") || len(a.Unread) == 0 {
		t.Errorf("%v: %+v", err, a)
	}
}
