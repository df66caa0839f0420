// Package informers holds the caches that all controllers of a process share: one per kind, slimmed on the way in, with
// an index for every lookup that is made often (CI-9, RS-63).
package informers

import (
	"math/rand/v2"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// NewFactory returns the factory of all shared informers. Each object is slimmed before it is cached, see [Slim]; with
// a client made by [NewClient], even before it is decoded.
func NewFactory(client kubernetes.Interface, resync time.Duration, options ...informers.SharedInformerOption) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(client, resync, append(options, informers.WithTransform(newShares().slim))...)
}

// DrawResync draws the period in which informers re-deliver everything: uniform in [least, 2*least), so that the
// processes of a cluster don't do it in step (CI-14).
func DrawResync(least time.Duration) time.Duration {
	if least <= 0 {
		return 0
	}
	return least + rand.N(least)
}
