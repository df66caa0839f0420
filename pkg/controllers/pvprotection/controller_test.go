package pvprotection

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// run runs the controller in virtual time while a test works.
func run(t *testing.T, test func(s *clienttest.Server, put func(*corev1.PersistentVolume))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, entry := clienttest.NewServer(), New(Options{})
		c := managertest.Context(t, server, entry, managertest.Cache{Example: &corev1.PersistentVolume{}})
		managertest.Run(t, c, entry, func() {
			test(server, func(v *corev1.PersistentVolume) {
				if _, err := server.Put(v); err != nil {
					t.Fatal(err)
				}
			})
		})
	})
}

// read returns the volume as the server has it.
func read(t *testing.T, s *clienttest.Server) *corev1.PersistentVolume {
	t.Helper()
	volumes := client.MappingFor[*corev1.PersistentVolume]()
	v := &corev1.PersistentVolume{}
	if err := s.Get(t.Context(), volumes, plan.Key{Name: "disk"}, v); err != nil {
		t.Fatal(err)
	}
	return v
}

// A volume gets the finalizer, keeps it while it is bound, and loses it when it no longer is. Each step is one update.
func TestLifeOfAVolume(t *testing.T) { // SM-20, SM-22, SM-23, SM-24
	run(t, func(s *clienttest.Server, put func(*corev1.PersistentVolume)) {
		for _, c := range []struct {
			step    string
			change  edit
			want    []string
			updates int
		}{
			{"it is created and bound", phase(corev1.VolumeBound), []string{finalizer}, 1},
			{"it is deleted", leaving, []string{finalizer}, 1},
			{"its claim is gone", phase(corev1.VolumeReleased), nil, 2},
		} {
			v := volume()
			if c.updates > 1 || c.step != "it is created and bound" {
				v = read(t, s)
			}
			c.change(v)
			put(v)
			clienttest.Settle()
			if v = read(t, s); !slices.Equal(v.Finalizers, c.want) || s.CountWrites("update") != c.updates ||
				s.CountWrites("") != c.updates {
				t.Errorf("%s: %v, %v", c.step, v.Finalizers, s.Log())
			}
		}
	})
}

// A volume that is bound while the cache does not show it keeps the finalizer: the update is refused.
func TestStaleCache(t *testing.T) { // SM-24, SM-26
	run(t, func(s *clienttest.Server, put func(*corev1.PersistentVolume)) {
		s.BeforeWrite(func(clienttest.Write) error {
			s.BeforeWrite(nil)
			put(volume(leaving, with(finalizer), phase(corev1.VolumeBound)))
			return nil
		})
		put(volume(leaving, with(finalizer), phase(corev1.VolumeAvailable)))
		clienttest.Settle()
		if v := read(t, s); !slices.Equal(v.Finalizers, []string{finalizer}) || s.CountWrites("refused update") != 1 {
			t.Error(s.Log())
		}
	})
}

// An update that fails is tried again without an end.
func TestErrorsAreRetried(t *testing.T) { // SM-24
	run(t, func(s *clienttest.Server, put func(*corev1.PersistentVolume)) {
		s.BeforeWrite(clienttest.RefuseFirst(10, apierrors.NewInternalError(errors.New("no"))))
		put(volume())
		clienttest.Settle()
		if v := read(t, s); len(v.Finalizers) != 1 || s.CountWrites("") != 1 {
			t.Errorf("%v, %v", v.Finalizers, s.Log())
		}
	})
}
