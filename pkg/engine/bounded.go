package engine

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// requestTimeout bounds one request, so that a server that hangs cannot hold a worker for ever.
const requestTimeout = 30 * time.Second

// bounded ends every request in time, and lets the worker that has made it know that it has ended.
type bounded struct{ API }

func (b bounded) Create(ctx context.Context, k Kind, o plan.Object) (plan.Object, error) {
	ctx, end := begin(ctx)
	defer end()
	return b.API.Create(ctx, k, o)
}

func (b bounded) Update(ctx context.Context, k Kind, o plan.Object, status bool) (plan.Object, error) {
	ctx, end := begin(ctx)
	defer end()
	return b.API.Update(ctx, k, o, status)
}

func (b bounded) Patch(ctx context.Context, k Kind, namespace, name string, patch []byte, status bool) (plan.Object, error) {
	ctx, end := begin(ctx)
	defer end()
	return b.API.Patch(ctx, k, namespace, name, patch, status)
}

func (b bounded) Delete(ctx context.Context, k Kind, namespace, name string, opts metav1.DeleteOptions) error {
	ctx, end := begin(ctx)
	defer end()
	return b.API.Delete(ctx, k, namespace, name, opts)
}

func (b bounded) Get(ctx context.Context, k Kind, namespace, name string) (plan.Object, error) {
	ctx, end := begin(ctx)
	defer end()
	return b.API.Get(ctx, k, namespace, name)
}

func (b bounded) List(ctx context.Context, k Kind, namespace, selector string) ([]metav1.PartialObjectMetadata, error) {
	ctx, end := begin(ctx)
	defer end()
	return b.API.List(ctx, k, namespace, selector)
}

func begin(ctx context.Context) (bound context.Context, end func()) {
	bound, cancel := context.WithTimeout(ctx, requestTimeout)
	return bound, func() {
		cancel()
		progressed(ctx)
	}
}
