package statefulset

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// simulation runs the controller over a world, as the runtime does: it applies the plan, then the report. Its diary says what happened.
type simulation struct {
	world        *plantest.World
	replaceStuck bool
	diary        []string
	said         string
	names        *strings.Replacer // of revisions, by their images
}

func newSimulation(objects ...plan.Object) *simulation {
	s := &simulation{world: plantest.NewWorld(objects...)}
	var names []string
	for _, img := range []string{"v1", "v2", "v3", "broken"} {
		names = append(names, revision(img, 1, web(1)).Name, "revision-"+img)
	}
	s.names = strings.NewReplacer(names...)
	return s
}

func (s *simulation) set() *appsv1.StatefulSet {
	return plantest.One[*appsv1.StatefulSet](s.world, "web")
}

// user notes what a user does, and does it.
func (s *simulation) user(what string, edits ...edit) *simulation {
	s.diary = append(s.diary, "", "# "+what)
	for _, e := range edits {
		plantest.Edit(s.world, "web", e)
	}
	return s.settle()
}

// look is one reconcile. It returns the number of writes.
func (s *simulation) look() int {
	set := s.set()
	if set == nil {
		return 0
	}
	var objects []plan.Object
	for _, p := range plantest.All[*corev1.Pod](s.world) {
		objects = append(objects, p)
	}
	for _, c := range plantest.All[*corev1.PersistentVolumeClaim](s.world) {
		objects = append(objects, c)
	}
	for _, r := range plantest.All[*appsv1.ControllerRevision](s.world) {
		objects = append(objects, r)
	}
	snap := see(set, objects...)
	snap.MaxUnavailable, snap.ReplaceStuckPods = true, s.replaceStuck
	p := planned(s.world.Now(), snap)
	if p.Why != s.said {
		s.said = p.Why
		s.note("* %s", p.Why)
	}
	log := len(s.world.Log)
	did := s.world.Apply(p)
	report := s.world.Apply(reported(s.world.Now(), snap, did))
	for _, line := range s.world.Log[log:] {
		s.note("    %s", strings.TrimSuffix(line, "web-"))
	}
	if len(report.Results) > 0 {
		st := s.set().Status
		s.note("      %d pods, %d ready, %d available; %d of current %s, %d of update %s", st.Replicas, st.ReadyReplicas,
			st.AvailableReplicas,
			st.CurrentReplicas, st.CurrentRevision, st.UpdatedReplicas, st.UpdateRevision)
		for _, c := range st.Conditions {
			s.note("      %s is %s: %s, %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return len(did.Results) + len(report.Results)
}

func (s *simulation) note(format string, args ...any) {
	s.diary = append(s.diary, s.names.Replace(fmt.Sprintf(format, args...)))
}

func (s *simulation) settle() *simulation {
	for range 30 {
		if s.look() == 0 {
			return s
		}
	}
	panic("does not settle: " + strings.Join(s.diary, "\n"))
}

// kubelet starts the pods that are new and ends those that are being deleted; pods of the image broken never become ready.
func (s *simulation) kubelet() (changed bool) {
	for _, p := range plantest.All[*corev1.Pod](s.world) {
		switch {
		case p.DeletionTimestamp != nil:
			s.world.Remove(p)
		case p.Status.Phase == "" && p.Spec.Containers[0].Image == "broken":
			plantest.EditStatus(s.world, p.Name, plantest.Phase(corev1.PodPending))
		case p.Status.Phase == "":
			plantest.EditStatus(s.world, p.Name, plantest.Ready(s.world.Now()))
		default:
			continue
		}
		changed = true
	}
	return changed
}

// collector deletes the claims whose owners are all gone.
func (s *simulation) collector() {
	alive := map[types.UID]bool{}
	for _, p := range plantest.All[*corev1.Pod](s.world) {
		alive[p.UID] = true
	}
	if set := s.set(); set != nil {
		alive[set.UID] = true
	}
	for _, c := range plantest.All[*corev1.PersistentVolumeClaim](s.world) {
		dead := func(ref metav1.OwnerReference) bool { return !alive[ref.UID] }
		if len(c.OwnerReferences) > 0 &&
			!slices.ContainsFunc(c.OwnerReferences, func(ref metav1.OwnerReference) bool { return !dead(ref) }) {
			s.note("    garbage collector: delete PersistentVolumeClaim %s", c.Name)
			s.world.Remove(c)
		}
	}
}

// run lets the pods start and end until nothing changes any more.
func (s *simulation) run() *simulation {
	s.settle()
	for range 60 {
		s.world.Sleep(time.Second)
		changed := s.kubelet()
		s.collector()
		s.settle()
		if !changed {
			return s
		}
	}
	panic("never comes to rest: " + strings.Join(s.diary, "\n"))
}

// TestDiaries tells what happens, step by step. Read the files; go test -update writes them anew.
func TestDiaries(t *testing.T) {
	for name, play := range map[string]func(*simulation){
		"STS-90 create": func(s *simulation) {
			s.user("create web with 3 replicas and a claim template", claims("data")).run()
		},
		"STS-91 rolling update": func(s *simulation) {
			s.run()
			s.diary = nil
			s.user("change the image to v2", image("v2")).run()
		},
		"STS-58 parallel update": func(s *simulation) {
			s.user("web has parallel pods, of which two may be unavailable", parallel, most("2")).run()
			s.diary = nil
			s.user("change the image to one that does not start", image("broken")).run()
			s.user("change the image to v2", image("v2")).run()
		},
		"STS-62 update on deletion": func(s *simulation) {
			s.user("pods are updated when they are deleted", onDelete).run()
			s.diary = nil
			s.user("change the image to v2", image("v2")).run()
			for _, p := range plantest.All[*corev1.Pod](s.world) {
				s.world.Remove(p)
			}
			s.user("all pods are deleted").run()
		},
		"STS-76 recreate": func(s *simulation) {
			s.user("web recreates its pods", recreate).run()
			s.diary = nil
			s.user("change the image to v2", image("v2")).run()
			s.user("change the image to one that does not start", image("broken")).run()
			s.user("back to v2, and scale to 2", image("v2"), size(2)).run()
		},
		"STS-92 scaling down waits": func(s *simulation) {
			s.user("scale to 5", size(5)).run()
			s.diary = nil
			plantest.EditStatus(s.world, "web-0", unready)
			s.user("pod web-0 is not ready any more; scale to 2", size(2)).run()
			plantest.EditStatus(s.world, "web-0", plantest.Ready(s.world.Now()))
			s.user("pod web-0 is ready again").run()
		},
		"STS-56 staged update": func(s *simulation) {
			s.run()
			s.diary = nil
			s.user("change the image to v2, above partition 2", image("v2"), partition(2)).run()
			s.world.Remove(plantest.One[*corev1.Pod](s.world, "web-0"))
			s.user("pod web-0 is lost").run()
			s.user("lower the partition to 0", partition(0)).run()
		},
		"STS-24 claims go with pods": func(s *simulation) {
			s.user("web has a claim template; claims go when it is scaled down", claims("data"), policy("Delete/Retain")).run()
			s.diary = nil
			s.user("scale to 1", size(1)).run()
			s.user("scale to 2", size(2)).run()
		},
		"STS-100 stuck": func(s *simulation) {
			s.run()
			s.diary = nil
			s.user("change the image to one that does not start", image("broken")).run()
			s.user("back to v1", image("v1")).run()
			s.replaceStuck = true
			s.user("with --statefulset-replace-stuck-pods").run()
		},
		"STS-33 rollback": func(s *simulation) {
			s.run()
			s.user("change the image to v2", image("v2")).run()
			s.diary = nil
			s.user("kubectl rollout undo: back to v1", image("v1")).run()
			for _, r := range plantest.All[*appsv1.ControllerRevision](s.world) {
				s.note("  %s has number %d", r.Name, r.Revision)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSimulation(web(3))
			play(s)
			got := strings.TrimLeft(strings.Join(s.diary, "\n"), "\n") + "\n"
			plantest.Golden(t, filepath.Join("testdata", strings.ReplaceAll(name, " ", "_")+".txt"), got)
		})
	}
}
