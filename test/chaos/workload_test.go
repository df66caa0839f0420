package chaos

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

// scriptsAtOnce are played in each namespace, with the same few names of apps.
const scriptsAtOnce = 3

// randomWork is what users do at random: scripts of the simulation, which know all controllers, played in real time. What fails,
// because the API server is away or someone else was faster, is left at that.
type randomWork struct {
	*rand.Rand
	testing.TB
	client     kubernetes.Interface
	namespaces []string
	done       atomic.Int32 // operations
}

// run plays a few scripts in each namespace, all of them within a time.
func (w *randomWork) run(ctx context.Context, lasts time.Duration) {
	var all sync.WaitGroup
	for _, ns := range w.namespaces {
		for range scriptsAtOnce {
			s := suite.RandomFocused(w.Uint64())
			all.Go(func() { w.play(ctx, w.user(ctx, ns), s, lasts) })
		}
	}
	all.Wait()
}

// user is one who does not wait for long, and does not mind.
func (w *randomWork) user(ctx context.Context, ns string) *suite.User {
	return &suite.User{TB: w.TB, Client: w.client, Namespace: ns, Wait: func(_ string, _ time.Duration, check func() error) {
		for range 3 {
			if check() == nil || ctx.Err() != nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}}
}

// play does what the lines of a script say, in their order. Their times are stretched or squeezed so that all is done within a time.
func (w *randomWork) play(ctx context.Context, u *suite.User, s script.Script, lasts time.Duration) {
	if len(s.Lines) == 0 {
		return
	}
	began, last := time.Now(), s.Lines[len(s.Lines)-1].At
	for _, l := range s.Lines {
		if l.Op() == "fault" {
			continue
		}
		at := time.Duration(float64(lasts) * l.At.Seconds() / last.Seconds())
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(began.Add(at))):
		}
		if u.Do(l) == nil {
			w.done.Add(1)
		}
	}
}

// settle undoes what would keep the managers from coming to rest, as the end of a simulation does.
func (w *randomWork) settle(ctx context.Context) error {
	for _, ns := range w.namespaces {
		for _, line := range []string{"resourcequota * lift=true", "cron * suspend=true"} {
			if err := w.user(ctx, ns).Do(script.Line{Words: strings.Fields(line)}); err != nil {
				return err
			}
		}
	}
	return nil
}
