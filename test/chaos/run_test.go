package chaos

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/test/chaos/proxy"
	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/oracle"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

const (
	// restfulness is how long a manager that has nothing to do must have written nothing: longer than it may hold back a
	// status.
	restfulness = 1500 * time.Millisecond
	// longestBackOff is when a manager tries again at the latest (L4).
	longestBackOff = 60 * time.Second
	// recovery is how long a test waits for a manager to get over faults.
	recovery = longestBackOff + 15*time.Second
)

// run is a manager that works on one namespace through a fault proxy. Runs don't see one another, so they may go on in
// parallel.
type run struct {
	process
	ns        string
	proxy     *proxy.Proxy
	recording *recording
	tally     *tally
	sharing   func(controller string) bool // which controllers its manager runs
	judged    bool

	unsettled []string       // what is wrong in the end, as the entries see it
	looked    map[string]int // at how many objects each has looked

	reference *oracle.History // of a run without faults, which ends in the same state; nil if there is none

	mu        sync.Mutex
	at        writePoint // the write before which something happens
	happens   func()     // what that is; nil if it has happened, or nothing is to happen
	acted     time.Time  // when the user last changed something
	disturbed oracle.Interval
	looks     map[string][]time.Time // when the manager asked for a list or a watch, by resource
}

// manager0 is the name of a run's manager in scripts.
const manager0 = "m0"

// newRun starts a proxy, for a run that the tally counts, however it ends. The manager behind it starts with [run.start].
func newRun(t *testing.T, c *cluster.Cluster, y *tally, flags ...string) *run {
	t.Helper()
	r := &run{process: process{T: t, Cluster: c, lives: lives{name: manager0}}, tally: y, ns: c.Namespace(t), sharing: suite.Sharing("")}
	r.recording = newRecording(t, c, r.ns)
	var err error
	r.proxy, err = proxy.Start(proxy.Options{
		Kubeconfig: c.ManagerKubeconfig, Namespace: r.ns, Process: &r.process, Asked: r.asked,
		Answered: func(e proxy.Exchange) { r.recording.answered(r.lives.identity(e.Sent), e) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.proxy.Close(); err != nil {
			t.Errorf("close the proxy: %v", err)
		}
	})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := r.proxy.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	r.flags = append([]string{"--kubeconfig=" + kubeconfig, suite.SharingFlag(""), suite.GatesFlag, podgcThreshold,
		"--legacy-service-account-token-clean-up-period=" + suite.LegacyTokenPeriod}, flags...)
	t.Cleanup(r.explain)
	t.Cleanup(r.giveUp)
	return r
}

// taken is held by the run whose manager has a controller that must be alone.
var taken sync.Mutex

// alone has the manager of the run, which has not started, also run a controller that no other one may run at the time.
func (r *run) alone(controller string) {
	r.Helper()
	taken.Lock()
	r.Cleanup(taken.Unlock) // when the manager, which starts later, has ended
	r.flags[slices.Index(r.flags, suite.SharingFlag(""))] = suite.SharingFlag(controller)
	r.sharing, r.recording.alone = suite.Sharing(controller), true
}

// podgcThreshold lets podgc leave few pods.
var podgcThreshold = fmt.Sprintf("--terminated-pod-gc-threshold=%d", suite.TerminatedThreshold)

// asked notes lists and watches, and lets happen what is to happen before a write. The proxy calls it.
func (r *run) asked(q proxy.Request) {
	r.mu.Lock()
	if q.Verb == "list" || q.Verb == "watch" {
		if r.looks == nil {
			r.looks = map[string][]time.Time{}
		}
		r.looks[q.Resource] = append(r.looks[q.Resource], time.Now())
	}
	do := r.happens
	if do == nil || !r.at.is(q.Verb, q.Resource, q.Subresource) {
		r.mu.Unlock()
		return
	}
	if r.at.earlier--; r.at.earlier >= 0 {
		r.mu.Unlock()
		return
	}
	r.happens = nil
	r.mu.Unlock()
	do()
}

// before lets something happen right before a write.
func (r *run) before(at writePoint, do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.happens = at, do
}

// happened reports whether what was to happen has happened.
func (r *run) happened() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.happens == nil
}

// wait waits until check returns nil, while managers that are killed are started anew. It waits as long as faults may hold the work
// up.
func (r *run) wait(what string, timeout time.Duration, check func() error) {
	r.Helper()
	cluster.Eventually(r.T, max(timeout, recovery), what, func() error {
		r.revive()
		return check()
	})
}

// user does what users do, while managers that are killed are started anew.
func (r *run) user() *suite.User {
	r.Helper()
	config := rest.CopyConfig(r.RESTConfig)
	config.WarningHandlerWithContext = rest.NoWarnings{} // Endpoints are deprecated
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return watchful{next, r} })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		r.Fatal(err)
	}
	return &suite.User{TB: r.T, Client: client, Namespace: r.ns, Wait: r.wait, Backdate: r.Backdate}
}

// watchful notes when the user of a run changes something.
type watchful struct {
	http.RoundTripper
	run *run
}

// RoundTrip implements http.RoundTripper.
func (w watchful) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := w.RoundTripper.RoundTrip(request)
	if request.Method != http.MethodGet {
		w.run.mu.Lock()
		defer w.run.mu.Unlock()
		w.run.acted = time.Now()
	}
	return response, err
}

// play injects the faults of a script, from now on.
func (r *run) play(text string) {
	r.Helper()
	s, err := script.Parse(strings.NewReader(text))
	if err == nil {
		err = r.proxy.Play(s, manager0)
	}
	if err != nil {
		r.Error(err)
	}
}

// quiet waits until nothing has been written for as long as given.
func (r *run) quiet(long, timeout time.Duration) {
	r.Helper()
	last, since := -1, time.Now()
	r.wait("the manager is quiet", timeout, func() error {
		if n := r.proxy.Writes(); n != last {
			last, since = n, time.Now()
		}
		if rest := time.Since(since); rest < long {
			return fmt.Errorf("%d writes, quiet for %v", last, rest)
		}
		return nil
	})
}

// end waits until the manager has come to rest with its work done, and returns all that has happened. A manager that
// pauses before it tries again, or before it opens a watch again, is at rest for a while too. So it is asked whether something is left to
// do, and whether the end is that of the run without faults. If it is not to the last, the oracles will say why.
func (r *run) end() *oracle.History {
	r.Helper()
	o := oracle.Options{Settled: true, Unhindered: true, TerminatedPodThreshold: suite.TerminatedThreshold}
	for deadline := time.Now().Add(recovery); ; {
		r.quiet(restfulness, suite.Patience)
		h := r.recording.now(r.T)
		done := len(oracle.Check(h, o, oracle.EndsAtAFixpoint(), oracle.DeploymentsComplete()))+len(r.differences(h)) == 0
		if done || time.Now().After(deadline) {
			r.unsettled, r.looked = suite.Unsettled(ownSource{r.user().Source(r.CAFile), r.ns}, r.sharing)
			done = len(r.unsettled) == 0
		}
		if done || time.Now().After(deadline) {
			r.spare()
			return r.recording.all(r.T)
		}
	}
}

// ownSource leaves out what the manager of a run does not see: the nodes of others, and the system's namespaces.
type ownSource struct {
	suite.Source
	namespace string
}

func (s ownSource) hides(o metav1.Object) bool {
	runs := o.GetLabels()[proxy.Runs]
	return strings.HasPrefix(o.GetNamespace(), "kube-") || o.GetNamespace() == "" && strings.HasPrefix(o.GetName(), "kube-") ||
		runs != "" && runs != proxy.ForAll && runs != s.namespace
}

// Objects implements suite.Source.
func (s ownSource) Objects(kind schema.GroupVersionKind) []suite.Object {
	return slices.DeleteFunc(slices.Clone(s.Source.Objects(kind)), func(o suite.Object) bool { return s.hides(o) })
}

// Everything implements suite.Source.
func (s ownSource) Everything() []suite.Stored {
	return slices.DeleteFunc(s.Source.Everything(), func(o suite.Stored) bool { return s.hides(o) })
}

// explain logs what was injected, if the test has failed.
func (r *run) explain() {
	if !r.Failed() {
		return
	}
	for i, injection := range r.proxy.Injections() {
		if i == 200 {
			r.Logf("... and more")
			break
		}
		r.Logf("injected %s", injection)
	}
}

// keep saves the history of a run that has failed.
func (r *run) keep(h *oracle.History) {
	r.Helper()
	keep(r.T, r.ns, h)
}

// keep saves a history in the folder that CHAOS_HISTORIES names.
func keep(t *testing.T, name string, h *oracle.History) {
	t.Helper()
	dir := os.Getenv("CHAOS_HISTORIES")
	if dir == "" {
		return
	}
	file := filepath.Join(dir, name+".jsonl.gz")
	if err := h.Save(file); err != nil {
		t.Error(err)
		return
	}
	t.Logf("its history is in %s", file)
}
