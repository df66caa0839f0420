package informers

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// Caches of kinds of several groups have names that don't collide; those of the core group are short.
func TestStartedCachesAreNamedByGroup(t *testing.T) {
	f := NewFactory(fake.NewClientset(), 0)
	must(Pods(f))
	must(Objects[*appsv1.Deployment](f))
	ctx, cancel := context.WithCancel(t.Context())
	defer f.Shutdown()
	defer cancel()
	f.StartWithContext(ctx)
	all := CacheStatuses(f)
	if len(all) != 2 || all[0].Resource != "deployments.apps" || all[1].Resource != "pods" {
		t.Errorf("%+v", all)
	}
}
