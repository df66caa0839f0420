package deployment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// simulation runs the controller over a world, as the runtime does: it looks through caches, never before they show what it
// wrote, applies the plan, then the report.
type simulation struct {
	world *plantest.World
	cache *plantest.Cache

	seen lastSeen

	opened time.Time // when the page was opened, see opened

	debounces bool      // reports wait as long as they may
	since     time.Time // when the one that waits was made

	was     string   // the sizes when last noted
	sizes   []string // each combination of sizes of the ReplicaSets, oldest first: "3,1"
	reasons []string // each reason of Progressing that was written
}

func newSimulation(objects ...plan.Object) *simulation {
	w := plantest.NewWorld(objects...)
	return &simulation{world: w, cache: plantest.NewCache(w)}
}

func (s *simulation) deployment() *appsv1.Deployment {
	return plantest.One[*appsv1.Deployment](s.world, "web")
}

func (s *simulation) edit(edits ...edit) {
	for _, e := range edits {
		plantest.Edit(s.world, "web", e)
	}
}

// observe does what the controller's observe does.
func (s *simulation) observe() (snapshot, bool) {
	all := plantest.Cached[*appsv1.Deployment](s.cache)
	i := slices.IndexFunc(all, func(d *appsv1.Deployment) bool { return d.Name == "web" })
	if i < 0 {
		return snapshot{}, false
	}
	snap := snapshot{Deployment: all[i], Pods: map[types.UID][]*corev1.Pod{}}
	sets := plantest.Cached[*appsv1.ReplicaSet](s.cache)
	for _, rs := range sets {
		if ref := metav1.GetControllerOf(rs); ref == nil || ref.UID == all[i].UID {
			snap.ReplicaSets = append(snap.ReplicaSets, rs)
		}
	}
	for _, p := range plantest.Cached[*corev1.Pod](s.cache) {
		if ref := metav1.GetControllerOf(p); ref != nil {
			snap.Pods[ref.UID] = append(snap.Pods[ref.UID], p)
		}
	}
	name := snapshot{Deployment: all[i], ReplicaSets: snap.ReplicaSets}.nameToCheck()
	for _, rs := range sets {
		if name != "" && rs.Name == name {
			snap.NameConflict = rs
		}
	}
	snap.Seen = s.seen
	return snap, true
}

// look is one pass. It returns how many writes were tried, and when to look again.
func (s *simulation) look() (wrote int, next time.Duration, err error) {
	snap, ok := s.observe()
	if !ok {
		return 0, 0, nil
	}
	r, p := planRollout(s.world.Now(), snap)
	s.seen = r.Seen
	did := s.world.Apply(p)
	s.cache.Learn(did)
	wrote, next, err = len(did.Results), p.Requeue, did.Err
	if errors.Is(err, plan.ErrStale) || apierrors.IsConflict(err) {
		return wrote, next, err
	}
	rep := reportStatus(s.world.Now(), snap, r, did)
	next = plan.Sooner(next, rep.Requeue)
	if wait := s.debounce(rep); wait > 0 {
		return wrote, plan.Sooner(next, wait), err
	}
	told := s.world.Apply(rep)
	s.cache.Learn(told)
	s.note()
	if err == nil {
		err = told.Err
	}
	return wrote + len(told.Results), next, err
}

// debounce returns how much longer the report waits.
func (s *simulation) debounce(r plan.Plan) time.Duration {
	if !s.debounces || r.Empty() || r.When.Quiet == 0 {
		s.since = time.Time{}
		return 0
	}
	if s.since.IsZero() {
		s.since = s.world.Now()
	}
	left := s.since.Add(r.When.Longest).Sub(s.world.Now())
	if left <= 0 {
		s.since = time.Time{}
	}
	return left
}

// settle looks with caches up to date until there is nothing left to write.
func (s *simulation) settle() *simulation {
	for range 30 {
		s.cache.CatchUp()
		if n, _, err := s.look(); n == 0 || err != nil {
			return s
		}
	}
	panic("does not settle: " + strings.Join(s.world.Log, "; "))
}

// pods lets the ReplicaSets have their pods, and at most ready more become ready. Those that are deleted go.
func (s *simulation) pods(ready int) *simulation {
	s.world.ToyReplicaSets(1000)
	for _, p := range plantest.All[*corev1.Pod](s.world) {
		if p.DeletionTimestamp != nil {
			s.world.Remove(p)
		}
	}
	s.world.ToyKubelet(ready)
	s.world.ToyStatuses(func(*appsv1.ReplicaSet) bool { return true })
	return s.settle()
}

// note writes down what has changed.
func (s *simulation) note() {
	if now := s.sizesNow(); now != s.was {
		s.was, s.sizes = now, append(s.sizes, now)
	}
	reason := reasonOf(s.deployment().Status.Conditions)
	if n := len(s.reasons); reason != "" && (n == 0 || s.reasons[n-1] != reason) {
		s.reasons = append(s.reasons, reason)
	}
}

func (s *simulation) sizesNow() string {
	var out []string
	for _, rs := range s.sets() {
		out = append(out, fmt.Sprint(*rs.Spec.Replicas))
	}
	return strings.Join(out, ",")
}

func (s *simulation) sets() []*appsv1.ReplicaSet {
	sets := slices.Clone(plantest.All[*appsv1.ReplicaSet](s.world))
	slices.SortFunc(sets, byAge)
	return sets
}

// forget begins a new page.
func (s *simulation) forget() {
	s.sizes, s.reasons, s.world.Log, s.world.Events = nil, nil, nil, nil
	s.world.Sleep(time.Minute) // what is created from now on is younger
}

// statuses counts the writes of the Deployment's status.
func (s *simulation) statuses() (n int) {
	for _, line := range s.world.Log {
		if line == "status Deployment web" {
			n++
		}
	}
	return n
}
