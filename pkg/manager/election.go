package manager

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"github.com/standalone-kcm/controller-manager/internal/identity"
	"github.com/standalone-kcm/controller-manager/pkg/leaderelection"
)

// newElector makes the elector. It has a client of its own for requests about the lease, another one for the watch of
// the lease, whose requests may last, and the root identity for events, which end with closeEvents.
func (m *instance) newElector(ctx context.Context) (e *leaderelection.Elector, closeEvents func(), err error) {
	root, err := m.builder.Root()
	if err != nil {
		return nil, nil, fmt.Errorf("client for leader events: %w", err)
	}
	config := m.builder.Lease(m.LeaderElection.RenewDeadline)
	config.Wrap(m.refusals.Wrap)
	leases, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("client for the lease: %w", err)
	}
	watching, err := kubernetes.NewForConfig(m.builder.Config(identity.LeaderElection))
	if err != nil {
		return nil, nil, fmt.Errorf("client for the watch of the lease: %w", err)
	}
	holder, err := leaderelection.Identity()
	if err != nil {
		return nil, nil, err
	}
	recorder, closeEvents := identity.NewRecorder(context.WithoutCancel(ctx), root.CoreV1(), m.Component, 0)
	e, err = leaderelection.New(m.LeaderElection, holder, leases.CoordinationV1(), recorder)
	if err != nil {
		closeEvents()
		return nil, nil, err
	}
	e.Watch(watching.CoordinationV1())
	return e, closeEvents, nil
}
