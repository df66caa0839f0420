package integration

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/cluster"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

// From a pod's change of readiness to the Endpoints that show it, at 50 changes a second. What a change costs must not
// depend on the number of services in the namespace; the log has the figures, which mean something when the test runs
// alone. That each change arrives is what is tested.
func TestEndpointLatency(t *testing.T) {
	b := share(t)
	m := b.SharedManager(t)
	for _, services := range []int{30, 300} {
		t.Run(fmt.Sprintf("%d services", services), func(t *testing.T) {
			b := &bench{t, b.Cluster, b.Namespace(t)}
			b.flipReadiness(m, services, 500)
		})
	}
}

// flips are the changes of readiness that have not been seen in Endpoints yet, by service.
type flips struct {
	mu      sync.Mutex
	waiting map[string]flip
	took    []time.Duration
}

type flip struct {
	ready bool
	at    time.Time
}

func (b *bench) flipReadiness(m *cluster.Manager, services, changes int) {
	b.Helper()
	f := &flips{waiting: map[string]flip{}}
	user := &suite.User{TB: b.T, Client: b.Client, Namespace: b.ns}
	user.Each(services, func(i int) error {
		name := fmt.Sprintf("s%d", i)
		return errors.Join(
			b.createService(name, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "web", "pod": name} }),
			b.loosePod(b.Context(), name, 8080, fmt.Sprintf("10.7.%d.%d", i/250, i%250)))
	})
	w, err := b.Client.CoreV1().Endpoints(b.ns).Watch(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	go func() {
		for e := range w.ResultChan() {
			if endpoints, ok := e.Object.(*corev1.Endpoints); ok {
				f.seen(endpoints)
			}
		}
	}()
	for i := range services {
		b.waitEndpoints(fmt.Sprintf("s%d", i), fmt.Sprintf("ready 10.7.%d.%d:8080", i/250, i%250))
	}

	busy := m.CPU(b.T)
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for i := range changes {
		<-every.C
		name, ready := fmt.Sprintf("s%d", i%services), (i/services)%2 == 1
		f.wait(b, name) // two changes that are seen as one would be none
		b.flip(f, name, ready)
	}
	for i := range services {
		f.wait(b, fmt.Sprintf("s%d", i))
	}
	busy = m.CPU(b.T) - busy
	slices.Sort(f.took)
	n := len(f.took)
	b.Logf("%d changes over %d services: median %v, 99%% %v, longest %v; %v of CPU for each",
		n, services, f.took[n/2], f.took[n*99/100], f.took[n-1], busy/time.Duration(n))
}

func (b *bench) flip(f *flips, name string, ready bool) {
	b.Helper()
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	f.mu.Lock()
	f.waiting[name] = flip{ready, time.Now()}
	f.mu.Unlock()
	err := b.podStatus(b.Context(), name, corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.Now()},
	}})
	if err != nil {
		b.Fatal(err)
	}
}

// wait waits until the last change of a service has been seen.
func (f *flips) wait(b *bench, name string) {
	b.Helper()
	b.wait("the change of "+name+" has arrived", func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if change, waiting := f.waiting[name]; waiting {
			return fmt.Errorf("it has not after %v", time.Since(change.at))
		}
		return nil
	})
}

func (f *flips) seen(e *corev1.Endpoints) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change, ok := f.waiting[e.Name]
	if !ok || len(e.Subsets) != 1 || (len(e.Subsets[0].Addresses) == 1) != change.ready {
		return
	}
	f.took = append(f.took, time.Since(change.at))
	delete(f.waiting, e.Name)
}
