package csrsigning

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"time"

	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/credentials/csrutil"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/manager"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// workers is how many certificates each signer signs at the same time (CSR-1).
const workers = 5

// New returns the signer. Without the files of a certificate authority it is off, whatever --controllers
// says (CSR-12). Options that are zero have their defaults.
func New(o Options) manager.Controller {
	o.Duration = cmp.Or(o.Duration, 365*24*time.Hour)
	return manager.Controller{
		Name:    "certificatesigningrequest-signing-controller",
		Alias:   "csrsigning",
		Account: "certificate-controller",
		Flags:   &o,
		Rights:  Rights,
		Init:    o.init,
	}
}

// init opens the files of the authorities, and makes a controller for each signer that has some. Signers with
// the same pair of files share what was read, and one of them logs what is wrong with it.
func (o *Options) init(c manager.Context) (manager.Runner, error) {
	pairs, off := o.pairs()
	logOff(off)
	if len(pairs) == 0 {
		return nil,
			manager.Off{Why: "no flag names a certificate and a key to sign with, see --cluster-signing-cert-file"}
	}
	authorities, err := openAuthorities(pairs)
	if err != nil {
		return nil, err
	}
	requests, err := informers.Objects[*csrutil.Request](c.Informers)
	if err != nil {
		return nil, err
	}
	queues := map[string]reconcile.Part{} // by signer
	own := newCollectors(authorities, queues)
	var parts []reconcile.Part
	logging := map[*authority]bool{}
	for _, name := range csrutil.Signers() {
		a := authorities[name]
		if a == nil {
			continue
		}
		s := &signing{name: name, requests: requests, authority: a, logs: !logging[a], duration: o.Duration}
		logging[a] = true
		part := reconcile.New(c.Shared, c.Access, s.controller(own))
		queues[name] = part
		parts = append(parts, part)
	}
	c.RegisterMetrics(own.all()...)
	return reconcile.Together(parts...), nil
}

// controller returns what the engine runs for one signer. What is slow for one does not hold up another (CSR-51).
func (s *signing) controller(own collectors) reconcile.Controller[snapshot, struct{}, struct{}] {
	return reconcile.Controller[snapshot, struct{}, struct{}]{
		Name:      "certificate_signing_" + path.Base(s.name),
		QueueName: "certificate", // shared with the approver, as in the original: its metrics are the sums
		Workers:   workers,
		Explained: []string{s.requests.Kind().Kind},
		Watches:   []reconcile.Watch{s.requests.Watch(s.enqueued, informers.WithResync)},
		Source:    s.follow,
		Observe:   s.observe,
		Plan:      reconcile.PlanOnly(planCertificate),
		Sign:      s.sign,
		Applied:   own.applied,
	}
}

// logOff logs which signers are off (CSR-9, CSR-12), in one line if all are off for the same reason.
func logOff(off map[string]string) {
	reasons := map[string][]string{}
	for _, name := range csrutil.Signers() {
		if why, ok := off[name]; ok {
			reasons[why] = append(reasons[why], name)
		}
	}
	for why, signers := range reasons {
		klog.Background().Info("Skipping CSR signer controller because "+why, "signers", signers)
	}
}

// openAuthorities reads the files. Signers with the same files share an authority.
func openAuthorities(pairs map[string]Pair) (map[string]*authority, error) {
	opened, all := map[Pair]*authority{}, map[string]*authority{}
	for _, name := range csrutil.Signers() {
		p, ok := pairs[name]
		if !ok {
			continue
		}
		if opened[p] == nil {
			a, err := openAuthority(p)
			if err != nil {
				return nil, fmt.Errorf("failed to init %s certificate controller: %w", name, err)
			}
			opened[p] = a
		}
		all[name] = opened[p]
	}
	return all, nil
}

// follow enqueues what is to be signed when the files of the authority have changed: what the old one could not sign,
// the new one may. It logs that the files of an authority do not belong together.
func (s *signing) follow(ctx context.Context, enqueue func(plan.Key)) {
	s.authority.follow(ctx, func() {
		err := s.authority.mismatch()
		switch {
		case err == nil:
			s.enqueueAll(enqueue)
		case s.logs:
			klog.FromContext(ctx).Info(
				"The files of a certificate authority do not belong together, what they said before stays", "err",
				err.Error())
		}
	})
}
