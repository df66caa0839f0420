package manager

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/client"
)

// A manager that only observes runs its controllers with clients that cannot write, records no events, and runs nothing in the place
// of a controller that is off.
func TestReadOnlyManager(t *testing.T) {
	config, asked := server(t, http.StatusOK)
	worker := fakeWorker{runs: make(chan struct{}), end: untilDone}
	var built Context
	observing := Controller{Name: "a", Account: "a", Init: func(c Context) (Runner, error) {
		built = c
		return worker, nil
	}}
	off := entry("off", fakeWorker{})
	off.Instead = func(Context) (Runner, error) { return nil, errors.New("what takes its place is built") }
	o := options(observing, off)
	o.ReadOnly, o.Off, o.Lacking = true, map[string]string{"off": "not asked for"}, []string{"pods"}
	m, err := New(config, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	<-worker.runs
	before := asked.Load()
	root, err := built.Root()
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	pods := client.MappingFor[*corev1.Pod]()
	for who, c := range map[string]*client.Clients{"its own": built.Clients, "the root": root} {
		if _, err := c.Client().Create(ctx, pods, pod, client.WriteOptions{}); !errors.Is(err, client.ErrReadOnly) {
			t.Errorf("%s client has written: %v", who, err)
		}
	}
	if built.Access.Events != nil || !built.Shared.ReadOnly || asked.Load() != before {
		t.Errorf("%+v, %d requests", built.Access, asked.Load()-before)
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it does not end")
	}
}

// What writes cannot be asked of a manager that only observes.
func TestReadOnlyManagerThatIsToWrite(t *testing.T) {
	config, _ := server(t, http.StatusOK)
	o := options(entry("a", fakeWorker{}))
	o.ReadOnly, o.LeaderElect, o.ServiceAccounts = true, true, true
	_, err := New(config, o)
	if err == nil || !strings.Contains(err.Error(), "LeaderElect") || !strings.Contains(err.Error(), "ServiceAccounts") {
		t.Error(err)
	}
}
