package endpoints

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
)

func TestSlicePrefix(t *testing.T) { // EPS-45
	for name, want := range map[string]string{"web": "web-", "Web_": "Web_"} {
		if got := NewSlice(metav1.OwnerReference{}, "shop", name, "IPv4").GenerateName; got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// The order of ports makes no difference, and anything else does (EPS-33).
func TestSamePorts(t *testing.T) {
	port := rapid.Custom(func(t *rapid.T) discoveryv1.EndpointPort {
		p := SlicePort(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "name"), rapid.Int32Range(1, 2).Draw(t, "number"), "", nil)
		switch rapid.IntRange(0, 3).Draw(t, "form") {
		case 1:
			p.AppProtocol = ptr.To("")
		case 2:
			p.Port = nil
		case 3:
			p.Name = nil
		}
		return p
	})
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(port, 0, 4).Draw(t, "a")
		b := rapid.Permutation(a).Draw(t, "b")
		if !SamePorts(a, b) {
			t.Fatal("the same in another order")
		}
		if len(b) > 0 {
			b[0] = SlicePort("other", 9, "UDP", nil)
			if SamePorts(a, b) {
				t.Fatal("another port")
			}
		}
	})
}

// Creations take the places of deletions as long as there are some (EPS-40).
func TestRecycle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		creates, deletes := rapid.IntRange(0, 4).Draw(t, "creates"), rapid.IntRange(0, 4).Draw(t, "deletes")
		c := SliceChanges{}
		for range creates {
			c.Create = append(c.Create, &discoveryv1.EndpointSlice{Endpoints: make([]discoveryv1.Endpoint, 1)})
		}
		for range deletes {
			c.Delete = append(c.Delete,
				&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "old", Annotations: map[string]string{"theirs": "x"}}})
		}
		c.Recycle()
		n := min(creates, deletes)
		if len(c.Create) != creates-n || len(c.Delete) != deletes-n || len(c.Update) != n {
			t.Fatalf("%d, %d, %d", len(c.Create), len(c.Delete), len(c.Update))
		}
		for _, u := range c.Update {
			if u.New.Name != "old" || len(u.New.Endpoints) != 1 || len(u.Old.Endpoints) != 0 || u.New.Annotations["theirs"] != "x" {
				t.Fatalf("%+v", u.New)
			}
		}
	})
}
