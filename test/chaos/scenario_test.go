package chaos

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/cluster/apirequest"
	"github.com/standalone-kcm/controller-manager/test/faults"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// scenario is a piece of work for a manager that ends in the same state each time.
type scenario struct {
	suite.Scenario
	*baseline
	alone string // the controller, if only one manager of a control plane may run it at a time
}

// baseline is what is known of the run without faults. It is made once, for the first test that asks.
type baseline struct {
	once    sync.Once
	history *oracle.History            // nil if the run has failed
	points  []writePoint               // all writes
	objects map[string]map[string]bool // that were written, by resource and name
}

// scenarios are those of all entries of the suite, and one of the oracles.
var scenarios = sync.OnceValue(func() (all []scenario) {
	for _, e := range suite.Entries() {
		alone := ""
		if e.Alone != "" {
			alone = e.Controller
		}
		for _, s := range e.Scenarios {
			all = append(all, scenario{s, &baseline{}, alone})
		}
	}
	return append(all, scenario{seasoned, &baseline{}, ""})
})

// seasoned is for S21, S24 and S25, which excuse what is so new that a manager may not know it: a DaemonSet is updated, pods are
// evicted and objects admitted when nodes, pods, budget and quota have been there for a while.
var seasoned = suite.Scenario{Name: "a DaemonSet, a budget and a quota after a while", Prepare: func(u *suite.User) { u.AddNodes(3) },
	Play: func(u *suite.User) {
		u.Create(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "some"}, Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourceConfigMaps: resource.MustParse("8")},
		}})
		awaitUsed(u, "some", 1)
		u.Create(suite.Deployment("web", 3))
		u.CreateDaemonSet("agent", 1)
		one := intstr.FromInt32(1)
		u.Create(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}})
		u.WaitComplete("web")
		u.WaitDaemonSet("agent", 3)
		u.SeasonFor(12*time.Second + *faultsLast) // what a fault has hidden is as good as new
		for i := range 3 {
			u.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("filled-", i)}})
		}
		for _, p := range u.Pods() {
			if p.Labels["app"] == "web" {
				u.Evict(p.Name)
			}
		}
		suite.Patch[*appsv1.DaemonSet](u, "agent", `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}`)
		u.WaitDaemonSet("agent", 3)
		u.WaitComplete("web")
		awaitUsed(u, "some", 4)
	}}

// awaitUsed waits until a quota says how many ConfigMaps there are.
func awaitUsed(u *suite.User, name string, n int64) {
	u.Helper()
	suite.Await(u, name, func(q *corev1.ResourceQuota) error {
		if used, ok := q.Status.Used[corev1.ResourceConfigMaps]; !ok || used.Value() != n {
			return fmt.Errorf("%+v, and %d are used", q.Status, n)
		}
		return nil
	})
}

const undisturbedName = "undisturbed"

// undisturbed plays the scenario without faults, unless that has been done.
func (s scenario) undisturbed(t *testing.T, c *cluster.Cluster, y *tally) {
	t.Helper()
	s.once.Do(func() {
		t.Run(undisturbedName, func(t *testing.T) {
			r := newRun(t, c, y)
			h := s.run(r)
			r.judge(h, oracle.Options{})
			if !t.Failed() {
				s.history = h
				s.points, s.objects = written(h, r.ns)
			}
		})
	})
	if s.history == nil {
		t.Fatal("the run without faults has failed")
	}
}

// writePoint is one of the writes of a manager: the one with a verb, to a resource with all its subresources or to one of them, that
// so many like it were sent before. It means the same in each run, as the number of a write does not.
type writePoint struct {
	verb, resource, subresource string
	earlier                     int
}

func (p writePoint) String() string { return fmt.Sprintf("%s %s %d", p.verb, p.path(), p.earlier+1) }

func (p writePoint) path() string { return strings.TrimSuffix(p.resource+"/"+p.subresource, "/") }

// is reports whether a request is like the write.
func (p writePoint) is(verb, resource, subresource string) bool {
	return verb == p.verb && resource == p.resource && (p.subresource == "" || p.subresource == subresource)
}

// certain reports whether each run makes such a write. Of changes there may be fewer, as several may become one.
func (p writePoint) certain() bool { return p.earlier == 0 || p.verb == "create" || p.verb == "delete" }

// written are the writes of a history to objects of a namespace, without those that are noise, in the order in which they were sent.
// Objects that belong to no namespace have names that begin with it, are VolumeAttachments of such nodes, or those of a controller that is
// alone.
func written(h *oracle.History, namespace string) (points []writePoint, objects map[string]map[string]bool) {
	requests := slices.Clone(h.Requests)
	slices.SortStableFunc(requests, func(a, b oracle.Request) int { return a.Received.Compare(b.Received) })
	objects = map[string]map[string]bool{}
	attaches := map[string]bool{}
	for _, v := range h.Revisions {
		if a, ok := v.Object.(*storagev1.VolumeAttachment); ok && strings.HasPrefix(a.Spec.NodeName, namespace) {
			attaches[a.Name] = true
		}
	}
	var before []oracle.Request
	for _, q := range requests {
		own := q.Namespace == namespace || strings.HasPrefix(q.Name, namespace) || attaches[q.Name] || q.Resource == "clustertrustbundles"
		if !own ||
			!faults.IsWork(apirequest.Request{Verb: q.Verb, Resource: q.Resource, Subresource: q.Subresource, Namespace: q.Namespace}) {
			continue
		}
		p := writePoint{verb: q.Verb, resource: q.Resource, subresource: q.Subresource}
		for _, other := range before {
			if p.is(other.Verb, other.Resource, other.Subresource) {
				p.earlier++
			}
		}
		before, points = append(before, q), append(points, p)
		if objects[q.Resource] == nil {
			objects[q.Resource] = map[string]bool{}
		}
		objects[q.Resource][q.Name] = true
	}
	return points, objects
}

// middle is a write in the middle of the scenario that each run makes. It is about the resource of which the manager writes most: of
// the creations and deletions the one in the middle, or else the first change, if possible one that is not of a status.
func (s scenario) middle() writePoint {
	main := s.mainResource()
	points := slices.DeleteFunc(slices.Clone(s.points), func(p writePoint) bool { return p.resource != main })
	var sure []writePoint
	for _, p := range points {
		// One object may be made again more often in one run than in another, and of deletions others may do some.
		again := p.earlier > 0 && (p.verb != "create" || p.earlier >= len(s.objects[main])/2)
		if (p.verb == "create" || p.verb == "delete") && !again {
			sure = append(sure, p)
		}
	}
	if len(sure) > 0 {
		return sure[len(sure)/2]
	}
	if i := slices.IndexFunc(points, func(p writePoint) bool { return p.earlier == 0 && p.subresource == "" }); i >= 0 {
		return points[i]
	}
	return points[0]
}

// mainResource is the one of which the manager writes most objects.
func (s scenario) mainResource() (resource string) {
	for _, p := range s.points {
		if len(s.objects[p.resource]) > len(s.objects[resource]) {
			resource = p.resource
		}
	}
	return resource
}

// run plays the scenario until the manager rests and no fault is left.
func (s scenario) run(r *run) *oracle.History {
	r.Helper()
	if s.alone != "" {
		r.alone(s.alone)
	}
	if s.Prepare != nil {
		s.Prepare(r.user())
	}
	r.start()
	s.Play(r.user())
	r.wait("the faults are over", recovery, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.disturbed.From.IsZero() && r.disturbed.To.IsZero() {
			return fmt.Errorf("they have begun at %v", r.disturbed.From)
		}
		return nil
	})
	return r.end()
}

// disturb plays the scenario, and from the write in its middle on the faults of a script, for a while. It judges what has happened.
// A script made at random may find nothing that its faults apply to; others must inject something.
func (s scenario) disturb(r *run, script string, lasts time.Duration, injects bool) {
	r.Helper()
	r.reference = s.history
	r.before(s.middle(), func() {
		r.disturbs()
		r.play(script)
		time.AfterFunc(lasts, r.calm)
	})
	h := s.run(r)
	if n := len(r.proxy.Injections()); n == 0 && injects {
		r.Errorf("no fault was injected; the manager has sent %d writes, and the fault was to begin at %s", r.proxy.Writes(), s.middle())
	}
	r.judge(h, oracle.Options{Lease: leaseNamespace + "/" + r.ns})
}

// disturbs notes that faults begin.
func (r *run) disturbs() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.disturbed = oracle.Interval{From: time.Now()}
}

// calm ends all faults.
func (r *run) calm() {
	r.proxy.Calm()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.disturbed.To = time.Now()
}
