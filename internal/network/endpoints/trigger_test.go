package endpoints

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// Times of which some were replaced tell the same changes as times that were made anew.
func TestTimesWith(t *testing.T) { // EP-31, EPS-23
	rapid.Check(t, func(t *rapid.T) {
		service := &corev1.Service{}
		pod := rapid.Custom(func(t *rapid.T) *corev1.Pod {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(rapid.StringMatching("[a-h]").Draw(t, "uid"))}}
			at := metav1.Unix(rapid.Int64Range(1, 9).Draw(t, "at"), 0)
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, LastTransitionTime: at}}
			return p
		})
		draw := func(what string) []*corev1.Pod {
			return rapid.SliceOfDistinct(pod, func(p *corev1.Pod) types.UID { return p.UID }).Draw(t, what)
		}
		all := map[types.UID]*corev1.Pod{}
		var short *Times
		for range rapid.IntRange(1, 5).Draw(t, "rounds") {
			changed, gone := draw("changed"), map[types.UID]bool{}
			for _, p := range draw("gone, unless they have changed") {
				gone[p.UID] = true
				delete(all, p.UID)
			}
			for _, p := range changed {
				all[p.UID] = p
			}
			if few := TimesOf(service, changed); short == nil {
				short = few
			} else {
				short = short.With(few, gone)
			}
		}
		var pods []*corev1.Pod
		for _, p := range all {
			pods = append(pods, p)
		}
		long, now := TimesOf(service, pods), TimesOf(service, draw("now"))
		if a, b := maps.Collect(short.Ready.All()), maps.Collect(long.Ready.All()); !maps.Equal(a, b) {
			t.Fatalf("%v, want %v", a, b)
		}
		if a, b := EarliestChange(short, now), EarliestChange(long, now); !a.Equal(b) {
			t.Fatalf("%v, want %v", a.Format(time.TimeOnly), b.Format(time.TimeOnly))
		}
	})
}
