package persistentvolumeexpander

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// run runs the controller in virtual time while a test works. It returns what events said since it was last asked.
func run(t *testing.T, test func(s *clienttest.Server, put func(...plan.Object), told func() []string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, entry, events := clienttest.NewServer(), New(Options{}), record.NewFakeRecorder(100)
		c := managertest.Context(t, server, entry, managertest.Cache{Example: &corev1.PersistentVolumeClaim{}},
			managertest.Cache{Example: &corev1.PersistentVolume{}})
		c.Access.Events = events
		managertest.Run(t, c, entry, func() {
			test(server, func(objects ...plan.Object) {
				for _, o := range objects {
					if _, err := server.Put(o); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Minute)
			}, func() (all []string) {
				for {
					select {
					case e := <-events.Events:
						all = append(all, e)
					default:
						return all
					}
				}
			})
		})
	})
}

// What happens to a claim that grows, step by step.
func TestClaimGrows(t *testing.T) { // ST-1, ST-3, ST-5, ST-81
	run(t, func(s *clienttest.Server, put func(...plan.Object), told func() []string) {
		for _, c := range []struct {
			step string
			now  plan.Object
			want []string
		}{
			{"its volume", newVolume(), nil},
			{"it has what it asks for", newClaim(), nil},
			{"it asks for more", newClaim(asks("4Gi")), []string{waits}},
			{"it gets a part of it", newClaim(asks("4Gi"), has("2Gi")), nil},
			{"it asks for even more", newClaim(asks("8Gi"), has("2Gi")), []string{waits}},
			{"it asks for less again", newClaim(asks("4Gi"), has("2Gi")), nil},
			{"it gets that", newClaim(asks("4Gi"), has("4Gi")), nil},
			{"it asks for more once more", newClaim(asks("8Gi"), has("4Gi")), []string{waits}},
		} {
			put(c.now)
			if got := told(); !slices.Equal(got, c.want) {
				t.Errorf("%s: %q, want %q", c.step, got, c.want)
			}
		}
		if s.CountWrites("") > 0 { // ST-5
			t.Error(s.Log())
		}
	})
}

func TestHandOver(t *testing.T) { // ST-4
	run(t, func(s *clienttest.Server, put func(...plan.Object), told func() []string) {
		s.BeforeWrite(clienttest.RefuseFirst(1,
			apierrors.NewForbidden(client.MappingFor[*corev1.PersistentVolumeClaim]().GroupResource(), "data", errors.New("no"))))
		put(newVolume(ebs()), newClaim(asks("2Gi")))
		claim := &corev1.PersistentVolumeClaim{}
		if err := s.Get(t.Context(), client.MappingFor[*corev1.PersistentVolumeClaim](), plan.Key{Namespace: "shop", Name: "data"},
			claim); err != nil {
			t.Fatal(err)
		}
		if claim.Annotations["volume.kubernetes.io/storage-resizer"] != "ebs.csi.aws.com" || s.CountWrites("") != 1 ||
			s.CountWrites("patch") != 1 {
			t.Errorf("%v, %v", claim.Annotations, s.Log())
		}
		failed := `Warning ExternalExpanding hand the claim to the resizer of ebs.csi.aws.com: persistentvolumeclaims "data" is forbidden: no`
		if got := told(); !slices.Equal(got, []string{ofEBS, failed}) {
			t.Errorf("%q", got)
		}
	})
}

// A claim whose volume is not there yet, or another's, is no error: the volume brings it back.
func TestST82VolumeComesLater(t *testing.T) {
	run(t, func(s *clienttest.Server, put func(...plan.Object), told func() []string) {
		put(newClaim(asks("2Gi")), newVolume(func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil }))
		if got := told(); len(got) > 0 {
			t.Errorf("%q", got)
		}
		put(newVolume())
		if got := told(); !slices.Equal(got, []string{waits}) {
			t.Errorf("%q", got)
		}
	})
}
