package ephemeralvolume

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

func TestObserve(t *testing.T) {
	web := newPod("web", ephemeral("a"), ephemeral("b"))
	elsewhere := newClaim("web-b", web)
	elsewhere.Namespace = "office"
	k := newCaches(t, web, newClaim("web-a", nil), newClaim("web-other", nil), newClaim("web-c", web), elsewhere)
	r := request("web")
	r.Memory = &memory{Reported: map[string]types.UID{"web-a": "x"}}
	o, err := k.observe(t.Context(), r)
	if err != nil || !o.Exists || o.Snapshot.Pod != web || len(o.Snapshot.Claims) != 1 || o.Snapshot.Claims["web-a"] == nil ||
		o.Snapshot.Reported["web-a"] != "x" {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := k.observe(t.Context(), request("gone")); err != nil || o.Exists {
		t.Errorf("%+v, %v", o, err)
	}
	sets := live(o.Snapshot)
	if len(sets) != 1 || sets[0].Name != "web-b" || sets[0].Namespace != "shop" || sets[0].Kind.Kind != "PersistentVolumeClaim" {
		t.Errorf("read live before the first write: %+v", sets)
	}
}

func TestEnqueuedByPod(t *testing.T) {
	plain, with := newPod("web"), newPod("web", ephemeral("a"))
	for _, c := range []struct {
		name          string
		before, after plan.Object
		want          bool
	}{
		{"ST-20 a new pod with an ephemeral volume", nil, with, true},
		{"ST-20 one without", nil, plain, false},
		{"ST-20 one that is being deleted already", nil, newPod("web", ephemeral("a"), leaving), false},
		{"ST-20 one that changes", with, newPod("web", ephemeral("a"), phase(corev1.PodRunning)), false},
		{"ST-87 one in the place of another, whose deletion was missed", newPod("web", ephemeral("a"), uid("before")), with, true},
		{"ST-87 one in the place of another that had no volumes", newPod("web", uid("before")), with, true},
		{"one that is gone, of which something may be remembered", with, nil, true},
		{"one that is gone and had no such volumes", plain, nil, false},
	} {
		if got := enqueuedByPod(c.before, c.after); (len(got) == 1 && got[0] == plan.Key{Namespace: "shop", Name: "web"}) != c.want ||
			len(got) > 1 {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestEnqueuedByClaim(t *testing.T) {
	web := newPod("web", ephemeral("a"))
	k := newCaches(t, web, newPod("we", ephemeral("b-a")), newPod("web-a", ephemeral("x")), newPod("w", ephemeral("eb-a")),
		newPod("user", func(p *corev1.Pod) { p.Spec.Volumes[1].PersistentVolumeClaim.ClaimName = "web-a" }))
	other := newClaim("web-a", nil)
	other.UID = "other"
	changed := newClaim("web-a", web)
	changed.Labels = map[string]string{"a": "b"}
	elsewhere := newClaim("web-a", web)
	elsewhere.Namespace = "office"
	twice := newClaim("web-a", web)
	twice.OwnerReferences = append(twice.OwnerReferences, metav1.OwnerReference{Kind: "Job", UID: "j"})
	for _, c := range []struct {
		name          string
		before, after plan.Object
		want          []string
	}{
		{"ST-20 a claim that is gone enqueues the pod that has it", newClaim("web-a", web), nil, []string{"web"}},
		{"ST-24 also a foreign one, for which a pod waits", newClaim("web-a", nil), nil, []string{"web"}},
		{"ST-87 one in the place of another, whose deletion was missed", newClaim("web-a", web), other, []string{"web"}},
		{"one that has another controller now", newClaim("web-a", nil), newClaim("web-a", web), []string{"web"}},
		{"one with one more owner", newClaim("web-a", web), twice, nil},
		{"one that changes", newClaim("web-a", web), changed, nil},
		{"one that is new", nil, newClaim("web-a", web), nil},
		{"ST-20 one that is named by a volume of a pod", newClaim("web-other", nil), nil, nil},
		{"one of another namespace", elsewhere, nil, nil},
	} {
		var names []string
		for _, key := range k.enqueuedByClaim(c.before, c.after) {
			names = append(names, key.Name)
		}
		slices.Sort(names)
		if diff := cmp.Diff(c.want, names); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}
