package endpoints

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// MostNews is how many pods of a service may have changed before all are looked at again.
const MostNews = 128

// News are the pods of a service that have changed.
type News struct {
	Names map[string]bool
	UIDs  map[types.UID]bool // of them, also before the changes: they may be gone, or not be selected any more
	Few   bool               // it is enough to look at these pods again
}

// NewsOf returns what is known from the changes that have enqueued a service. A change of anything but a pod may
// concern all pods, and so may those that are missed.
func NewsOf[C ~struct {
	Before, After plan.Object
	Time          time.Time
}](changes []C, missed bool) News {
	n := News{Names: map[string]bool{}, UIDs: map[types.UID]bool{}, Few: !missed}
	for _, c := range changes {
		change := struct {
			Before, After plan.Object
			Time          time.Time
		}(c)
		for _, o := range []plan.Object{change.Before, change.After} {
			if p, ok := o.(*corev1.Pod); ok {
				n.Names[p.Name], n.UIDs[p.UID] = true, true
			} else if o != nil {
				n.Few = false
			}
		}
	}
	n.Few = n.Few && len(n.Names) <= MostNews
	return n
}

// VersionOf distinguishes versions of objects.
func VersionOf(o metav1.Object) string { return string(o.GetUID()) + " " + o.GetResourceVersion() }
