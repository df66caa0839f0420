package informers

import (
	"context"
	"testing"

	"k8s.io/client-go/kubernetes/fake"
)

// Caches of kinds of several groups have names that don't collide; those of the core group are short.
func TestStartedCachesAreNamedByGroup(t *testing.T) {
	f := NewFactory(fake.NewClientset(), 0)
	must(Pods(f))
	must(Deployments(f))
	ctx, cancel := context.WithCancel(t.Context())
	defer f.Shutdown()
	defer cancel()
	f.StartWithContext(ctx)
	all := AllStarted(f)
	if len(all) != 2 || all[0].Resource != "deployments.apps" || all[1].Resource != "pods" {
		t.Errorf("%+v", all)
	}
}
