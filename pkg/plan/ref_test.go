package plan_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestRefsAsText(t *testing.T) {
	pod := corev1.SchemeGroupVersion.WithKind("Pod")
	for want, ref := range map[string]plan.Ref{
		"Pod shop/web":                      {Kind: pod, Namespace: "shop", Name: "web"},
		"Node n":                            {Kind: corev1.SchemeGroupVersion.WithKind("Node"), Name: "n", Metadata: true, Shared: true},
		"Pods in shop":                      {Kind: pod, Namespace: "shop", All: true},
		"all Pods":                          {Kind: pod, All: true},
		"all Pods with spec.nodeName=n":     {Kind: pod, All: true, Fields: "spec.nodeName=n"},
		"Pods in shop with spec.nodeName!=": {Kind: pod, Namespace: "shop", All: true, Fields: "spec.nodeName!="},
	} {
		if got := ref.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
