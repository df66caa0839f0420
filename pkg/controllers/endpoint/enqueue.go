package endpoint

import (
	"github.com/standalone-kcm/controller-manager/internal/network/endpoints"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// enqueuedByEndpoints returns the key of Endpoints that were deleted (EP-2), and of those that were there before we
// began, which may be left over from a service that is gone (EP-7).
func enqueuedByEndpoints(before, after plan.Object) []plan.Key {
	switch {
	case after == nil:
		return []plan.Key{plan.KeyOf(before)}
	case before == nil && !isLeaderRecord(after):
		return []plan.Key{plan.KeyOf(after)}
	}
	return nil
}

// foreign reports whether Endpoints are not of our making. New ones may wait for a service that is about to be created,
// so they are left alone; our own may have been created so late that their service is gone already.
func foreign(added plan.Object) bool { return added.GetLabels()[managedByLabel] != managedBy }

// enqueuedByPod returns the services whose Endpoints a pod's change may alter (EP-3..6).
func (k *caches) enqueuedByPod(before, after plan.Object) []plan.Key {
	return endpoints.Enqueued(before, after, k.services.Selecting)
}
