package brakes

import (
	"context"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/identity"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Annotation of the lease releases the brakes of the controllers that it names, by name or alias and separated by commas, or of all (*), for
// as long as it is there.
const Annotation = "controller-manager/release-brakes"

// period is how often what is held is looked at, and the lease while something is.
const period = 10 * time.Second

// Set has the brakes of one manager.
type Set struct {
	// Lease is the key of the lease whose annotation releases brakes, and that has their events. It may be empty: there is none.
	Lease plan.Key

	budget    brake.Budget
	component string
	root      func() (kubernetes.Interface, error)
	all       []member
}

type member struct {
	name, alias string
	*brake.Brake
}

// New returns a set without brakes. Its events are from the component, and the root identity records them.
func New(budget brake.Budget, b *identity.Builder, component string) *Set {
	return &Set{budget: budget, component: component, root: b.Root}
}

// Add returns the brake of another controller. It must not be called any more when Run is.
func (s *Set) Add(name, alias string) *brake.Brake {
	b := brake.New(s.budget)
	s.all = append(s.all, member{name, alias, b})
	return b
}

// Run tells of what is held and released, until ctx ends. It runs while the process leads.
func (s *Set) Run(ctx context.Context) {
	root, err := s.root()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Brakes work, but tell nobody and cannot be released")
		return
	}
	recorder, end := identity.NewRecorder(ctx, root.CoreV1(), s.component, 0)
	defer end()
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.look(ctx, root, recorder)
		}
	}
}

// look tells of what is new, and asks the lease whether an operator has released a brake, if that matters.
func (s *Set) look(ctx context.Context, root kubernetes.Interface, recorder record.EventRecorder) {
	now := time.Now()
	var lease *coordinationv1.Lease
	for _, m := range s.all {
		held, ended := m.News(now)
		if lease == nil && (len(held) > 0 || len(ended) > 0 || m.Released() || len(m.Holds(now)) > 0) {
			if lease = s.read(ctx, root); lease == nil {
				lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.Lease.Namespace, Name: s.Lease.Name}}
			} else {
				s.obey(lease.Annotations[Annotation])
			}
		}
		for _, h := range held {
			klog.FromContext(ctx).Info("A brake holds", "controller", m.name, "what", h.What, "why", h.Why)
			s.tell(recorder, lease, corev1.EventTypeWarning, "BrakeHolds", "%s holds %s: %s. The annotation %s=%s of this lease releases it.",
				m.name, h.What, h.Why, Annotation, m.name)
		}
		for _, r := range ended {
			klog.FromContext(ctx).Info("A brake is released", "controller", m.name, "what", r.What, "why", r.Cause)
			s.tell(recorder, lease, corev1.EventTypeNormal, "BrakeReleased", "%s no longer holds %s: %s", m.name, r.What, r.Cause)
		}
	}
}

// read returns the lease; nil if there is none, or it cannot be read now.
func (s *Set) read(ctx context.Context, root kubernetes.Interface) *coordinationv1.Lease {
	if s.Lease.Name == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, period)
	defer cancel()
	lease, err := root.CoordinationV1().Leases(s.Lease.Namespace).Get(ctx, s.Lease.Name, metav1.GetOptions{})
	if err != nil {
		klog.FromContext(ctx).Info("The lease cannot be read, so it is not known whether it releases a brake", "err", err.Error())
		return nil
	}
	return lease
}

// obey releases the brakes that an annotation names, and no others.
func (s *Set) obey(annotation string) {
	var names []string
	for _, name := range strings.Split(annotation, ",") {
		names = append(names, strings.TrimSpace(name))
	}
	for _, m := range s.all {
		m.SetReleased(slices.ContainsFunc(names, func(name string) bool { return name == "*" || name == m.name || name != "" && name == m.alias }))
	}
}

// tell records an event of the lease, if there is one.
func (s *Set) tell(recorder record.EventRecorder, lease *coordinationv1.Lease, kind, reason, text string, values ...any) {
	if s.Lease.Name != "" {
		recorder.Eventf(lease, kind, reason, text, values...)
	}
}
