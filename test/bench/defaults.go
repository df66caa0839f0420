package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// defaultFlags lets a contender scale up one large Deployment as it is installed, and asks what that does to others: to a
// client that reads, and to the lease. With limits raised the same is asked where both make about as many pods a second.
func defaultFlags(ctx context.Context, b *bench) error {
	pods := 3000
	if b.quick {
		pods = 300
	}
	return b.inTurnTimes(ctx, 1, func(ctx context.Context, t turn) error {
		return b.withPlane(ctx, func(p *plane) error {
			for _, with := range []struct {
				limits string
				flags  []string
			}{{"default flags", nil}, {"limits raised", raisedLimits()}} {
				err := b.withManager(ctx, p, t, with.flags, func(s *session) error {
					return s.inNamespace(ctx, func(ns *namespace) error { return b.scaleBesideOthers(ctx, t, s, ns, pods, with.limits) })
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func (b *bench) scaleBesideOthers(ctx context.Context, t turn, s *session, ns *namespace, pods int, limits string) error {
	if _, err := s.measure(ctx, ns, func(ctx context.Context) error { return ns.createDeployments(ctx, 0, 1, 0) }); err != nil {
		return err
	}
	reading, err := s.plane.newReader(ctx, ns.name)
	if err != nil {
		return err
	}
	renewals, err := s.plane.followLease(ctx)
	if err != nil {
		return err
	}
	defer renewals.stop()
	began, created := time.Now(), time.Duration(0)
	watching, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { ns.errs.add(reading.read(watching)) })
	wg.Go(func() {
		for ctx := watching; ns.crowd.active() < pods && sleep(ctx, 2*time.Millisecond) == nil; {
			created = time.Since(began)
		}
	})
	m, err := s.measure(ctx, ns, func(ctx context.Context) error { return ns.scale(ctx, "web-0", pods) })
	stop()
	wg.Wait()
	if err != nil {
		return err
	}
	j := job{floor: floor.ScaleDeployment(pods), most: mostForOne}
	figures := append([]figure{
		{Name: "pods created each second", Value: float64(pods) / created.Seconds(), Unit: "/s"},
		seconds("longest gap between renewals of the lease", renewals.longestGap(began, began.Add(m.wall))),
	}, latencies("reads of another client", reading.took)...)
	b.keep(t, sample{Scenario: fmt.Sprintf("scale one Deployment from 0 to %d pods beside others, %s", pods, limits), Began: began,
		Flags:   s.flags,
		Figures: append(figures, j.figures(m)...), Writes: m.writes.rows})
	return nil
}

const readerName = "reader"

// reader is a client with its own service account, so that the API server queues it as it does others.
type reader struct {
	client kubernetes.Interface
	ns     string
	took   []time.Duration
}

func (p *plane) newReader(ctx context.Context, ns string) (*reader, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: readerName}}
	if _, err := p.client.CoreV1().ServiceAccounts(ns).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: readerName}, // "view" and its like are empty: no controller fills them
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"get"}}}}
	if _, err := p.client.RbacV1().Roles(ns).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: readerName},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: readerName},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: readerName, Namespace: ns}}}
	if _, err := p.client.RbacV1().RoleBindings(ns).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	token, err := p.client.CoreV1().ServiceAccounts(ns).CreateToken(ctx, readerName, &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(p.config)
	config.BearerToken = token.Status.Token
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &reader{client: client, ns: ns}, nil
}

// read reads an object fifty times a second until the context ends.
func (r *reader) read(ctx context.Context) error {
	every := time.NewTicker(20 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
		began := time.Now()
		if _, err := r.client.CoreV1().ServiceAccounts(r.ns).Get(ctx, readerName, metav1.GetOptions{}); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("reading: %w", err)
		}
		r.took = append(r.took, time.Since(began))
	}
}

// renewals are the moments at which the leader's lease was seen renewed.
type renewals struct {
	mu   sync.Mutex
	seen []time.Time
	errs collect
	stop func()
}

// followLease begins to watch the lease. The caller stops it.
func (p *plane) followLease(ctx context.Context) (*renewals, error) {
	leases := p.client.CoordinationV1().Leases("kube-system")
	list, err := leases.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w, err := watchFrom(ctx, list.ResourceVersion, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		o.FieldSelector = "metadata.name=" + leaseName
		return leases.Watch(ctx, o)
	})
	if err != nil {
		cancel()
		return nil, err
	}
	r := &renewals{}
	var wg sync.WaitGroup
	wg.Go(func() {
		r.errs.add(each(ctx, w, func(kind watch.EventType, _ *coordinationv1.Lease) {
			if kind == watch.Modified {
				r.note(time.Now())
			}
		}))
	})
	r.stop = func() { cancel(); wg.Wait() }
	return r, nil
}

func (r *renewals) note(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, now)
}

func (r *renewals) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

// longestGap is the longest time without a renewal between two moments.
func (r *renewals) longestGap(from, to time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return longestGap(r.seen, from, to)
}

func longestGap(seen []time.Time, from, to time.Time) (longest time.Duration) {
	last := from
	for _, at := range append(slices.Clone(seen), to) {
		if at.Before(from) || at.After(to) {
			continue
		}
		longest = max(longest, at.Sub(last))
		last = at
	}
	return longest
}

// next waits until the lease is renewed.
func (r *renewals) next(ctx context.Context) error {
	n := r.count()
	return until(ctx, "the lease is renewed", 5*time.Millisecond, func() (bool, error) { return r.count() > n, r.errs.first() })
}
