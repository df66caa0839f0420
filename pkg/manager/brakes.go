package manager

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/identity"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
)

// releaseAnnotation of the lease releases the brakes of the controllers that it names, by name or alias and separated
// by commas, or of all (*). It has no effect any more when it has been there for an hour, and is removed then.
const releaseAnnotation = "controller-manager/release-brakes"

// releasedFor is how long the annotation has effect.
const releasedFor = time.Hour

// brakesPeriod is how often what is held and released is looked at.
const brakesPeriod = 10 * time.Second

// annotatedLease is the one by which this process leads.
type annotatedLease interface {
	// Metadata is that of the lease, as this process has last seen it; empty if it has not.
	Metadata() metav1.ObjectMeta
	// Annotate sets what changes the annotations of the lease when it is renewed.
	Annotate(func(annotations map[string]string))
}

// brakeSet has the brakes of one manager.
type brakeSet struct {
	budget    brake.Budget
	component string
	root      func() (kubernetes.Interface, error)
	all       []brakeMember
	lease     annotatedLease // nil: there is none

	mu       sync.Mutex
	term     context.Context // of the controllers; nil: they do not run
	released brakeRelease
	expired  brakeRelease // the last one that has ended by time

	reported, reportedExpired brakeRelease // that were reported in this term
}

type brakeMember struct {
	name, alias string
	*brake.Brake
}

// newBrakeSet returns a set without brakes. Its events are from the component, and the root identity records them.
func newBrakeSet(budget brake.Budget, b *identity.Builder, component string) *brakeSet {
	return &brakeSet{budget: budget, component: component, root: b.Root}
}

// Follow has an annotation of a lease release the brakes, and another one say what they hold, so that the next
// leader knows. The lease has their events. It must be called before the lease is competed for.
func (s *brakeSet) Follow(l annotatedLease) {
	s.lease = l
	l.Annotate(s.annotate)
}

// Add returns the brake of another controller. It must not be called any more when Begin is.
func (s *brakeSet) Add(name, alias string) *brake.Brake {
	b := brake.New(s.budget)
	s.all = append(s.all, brakeMember{name, alias, b})
	return b
}

// Begin has the brakes know what the previous leader has held, and what is released. It is called when this process
// has begun to lead, before the controllers run.
func (s *brakeSet) Begin() {
	if s.lease == nil {
		return
	}
	now, annotations := time.Now(), s.lease.Metadata().Annotations
	noted := noteOf(annotations)
	for _, m := range s.all {
		m.Inherit(now, noted.of(m.name))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released, s.expired, s.reported, s.reportedExpired = brakeRelease{}, brakeRelease{}, brakeRelease{},
		brakeRelease{}
	s.obey(now, annotations)
}

// Run reports what is held and released, until ctx ends, which ends the controllers. It runs while the process leads.
func (s *brakeSet) Run(ctx context.Context) {
	s.mu.Lock()
	s.term = ctx
	s.mu.Unlock()
	root, err := s.root()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Brakes work, but there are no events of them")
		return
	}
	recorder, end := identity.NewRecorder(ctx, root.CoreV1(), s.component, 0)
	defer end()
	ticker := time.NewTicker(brakesPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.look(ctx, recorder)
		}
	}
}

// annotate has the lease say what is held and released. It is called for each renewal.
func (s *brakeSet) annotate(annotations map[string]string) {
	now := time.Now()
	var n brakesNote
	for _, m := range s.all {
		n.add(m.name, m.Noted(now))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term == nil || s.term.Err() != nil {
		return // controllers that have not begun, or are ending, hold nothing, which says nothing
	}
	if s.obey(now, annotations); s.released.Of == "" {
		delete(annotations, releaseAnnotation)
	} else {
		n.Release = &s.released
	}
	n.write(annotations)
}

// obey releases the brakes that the annotations name, and no others. The lock is held.
func (s *brakeSet) obey(now time.Time, annotations map[string]string) {
	r := brakeRelease{Of: annotations[releaseAnnotation], Since: now.UTC().Truncate(time.Second)}
	for _, before := range []brakeRelease{s.released, noteOf(annotations).released()} {
		if before.Of == r.Of && before.Since.Before(r.Since) {
			r.Since = before.Since
		}
	}
	if r.Of != "" && now.Sub(r.Since) >= releasedFor {
		s.expired, r.Of = r, ""
	}
	s.released = r
	for _, m := range s.all {
		m.SetReleased(r.names(m))
	}
}

// look reports what is new.
func (s *brakeSet) look(ctx context.Context, recorder record.EventRecorder) {
	now, logger := time.Now(), klog.FromContext(ctx)
	record := func(string, string, string, ...any) {}
	if s.lease != nil {
		lease := &coordinationv1.Lease{ObjectMeta: s.lease.Metadata()}
		record = func(kind, reason, text string, values ...any) {
			recorder.Eventf(lease, kind, reason, text,
				values...)
		}
		s.reportReleases(logger, now, lease.Annotations, record)
	}
	for _, m := range s.all {
		held, ended := m.Events(now)
		for _, h := range held {
			logger.Info("A brake holds", "controller", m.name, "what", h.What, "why", h.Why)
			record(corev1.EventTypeWarning, "BrakeHolds",
				"%s holds %s: %s. The annotation %s=%s of this lease releases it.", m.name, h.What, h.Why,
				releaseAnnotation, m.name)
		}
		for _, r := range ended {
			logger.Info("A brake is released", "controller", m.name, "what", r.What, "why", r.Cause)
			record(corev1.EventTypeNormal, "BrakeReleased", "%s no longer holds %s: %s", m.name, r.What, r.Cause)
		}
	}
}

// reportReleases reports, once in each term, that an annotation releases brakes, and that it does no longer.
func (s *brakeSet) reportReleases(
	logger klog.Logger, now time.Time, annotations map[string]string,
	record func(kind, reason, text string, values ...any),
) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.obey(now, annotations)
	r, reported, expired := s.released, s.reported, s.expired
	again := expired == s.reportedExpired
	s.reported, s.reportedExpired = r, expired
	switch {
	case !again:
		logger.Info("Brakes work again, as they have been released for an hour", "annotation", expired.Of)
		record(corev1.EventTypeWarning, "BrakesWorkAgain",
			"The annotation %s=%s of this lease has been there for an hour. It has no effect any more, and is removed.",
			releaseAnnotation, expired.Of)
	case r.Of == "" && reported.Of != "":
		logger.Info("Brakes work again, as the annotation is gone", "annotation", reported.Of)
		record(corev1.EventTypeNormal, "BrakesWorkAgain", "The annotation %s=%s of this lease is gone.",
			releaseAnnotation, reported.Of)
	case r.Of != reported.Of:
		until := r.Since.Add(releasedFor).UTC().Format(time.RFC3339)
		logger.Info("Brakes are released", "annotation", r.Of, "until", until)
		record(corev1.EventTypeWarning, "BrakesReleased",
			"The annotation %s=%s of this lease releases brakes until %s%s",
			releaseAnnotation, r.Of, until, s.unknown(r))
	}
}

// unknown says which names of a release are those of no controller.
func (s *brakeSet) unknown(r brakeRelease) string {
	names := slices.DeleteFunc(r.list(), func(name string) bool {
		return name == "*" || name == "" ||
			slices.ContainsFunc(s.all, func(m brakeMember) bool { return name == m.name || name == m.alias })
	})
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(". There is no controller %s.", strings.Join(names, ", "))
}
