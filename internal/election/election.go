package election

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/transport"

	"github.com/standalone-kcm/controller-manager/internal/identity"
	"github.com/standalone-kcm/controller-manager/pkg/leaderelection"
)

// New returns an elector. It has a client of its own for requests about the lease, which are wrapped, another one for the watch of the
// lease, whose requests may last, and the root identity for events, which are from the component and end with closeEvents.
func New(ctx context.Context, b *identity.Builder, component string, c leaderelection.Config, wrap transport.WrapperFunc) (e *leaderelection.Elector, closeEvents func(), err error) {
	root, err := b.Root()
	if err != nil {
		return nil, nil, fmt.Errorf("client for leader events: %w", err)
	}
	config := b.Lease(c.RenewDeadline)
	config.Wrap(wrap)
	leases, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("client for the lease: %w", err)
	}
	watching, err := kubernetes.NewForConfig(b.Config(identity.LeaderElection))
	if err != nil {
		return nil, nil, fmt.Errorf("client for the watch of the lease: %w", err)
	}
	holder, err := leaderelection.Identity()
	if err != nil {
		return nil, nil, err
	}
	recorder, closeEvents := identity.NewRecorder(context.WithoutCancel(ctx), root.CoreV1(), component, 0)
	e, err = leaderelection.New(c, holder, leases.CoordinationV1(), recorder)
	if err != nil {
		closeEvents()
		return nil, nil, err
	}
	e.Watch(watching.CoordinationV1())
	return e, closeEvents, nil
}
