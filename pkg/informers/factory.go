// Package informers holds the caches that all controllers of a process share: one per kind, with an index for every frequent
// lookup (CI-9, RS-63).
//
// Objects are projected to the fields that controllers read before they are cached (package projection), and equal parts of
// several objects are held once (interning). Lists and watches that fail are retried within seconds, their errors are logged
// at a limited rate, and [WatchLiveness] tells which watches are alive.
package informers

import (
	"math/rand/v2"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/standalone-kcm/controller-manager/pkg/projection"
)

// factory knows the client that decodes in part.
type factory struct {
	informers.SharedInformerFactory
	client *Client
}

// NewFactory returns the factory of all shared informers. With a client made by [NewClient], objects are projected while they
// are decoded, and lists and watches that fail are retried within seconds. Other clients, such as fakes, only lose
// managedFields.
func NewFactory(client kubernetes.Interface, resync time.Duration, options ...informers.SharedInformerOption) informers.SharedInformerFactory {
	own, ok := client.(*Client)
	project := projection.ManagedFields
	if ok {
		project = own.projection.Transform
	}
	f := informers.NewSharedInformerFactoryWithOptions(client, resync, append(options, informers.WithTransform(newInterner(project).transform))...)
	if !ok {
		return f
	}
	return factory{f, own}
}

// DrawResync draws the period in which informers re-deliver everything: uniform in [least, 2*least), so that the
// processes of a cluster don't do it in step (CI-14).
func DrawResync(least time.Duration) time.Duration {
	if least <= 0 {
		return 0
	}
	return least + rand.N(least)
}
