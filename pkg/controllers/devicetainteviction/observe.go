package devicetainteviction

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
	"github.com/standalone-kcm/controller-manager/pkg/reconcile"
)

// caches are what the controller reads.
type caches struct {
	pods   informers.Store[*corev1.Pod]
	claims informers.IndexedStore[*resourcev1.ResourceClaim] // by the pools of their devices
	slices informers.IndexedStore[*resourcev1.ResourceSlice] // by their pools
	rules  *informers.Store[*resourcev1.DeviceTaintRule]     // nil if rules are not obeyed
	brake  *brake.Brake
	term   *reconcile.Term[term]
	counts reconcile.Memo[countedAt, counts]
}

// String is a pool as the indexes have it.
func (p pool) String() string { return p.Driver + "/" + p.Name }

// poolsOfClaim is the index of claims by the pools of their devices.
func poolsOfClaim(c *resourcev1.ResourceClaim) (pools []string) {
	for _, d := range devicesOf(c) {
		pools = append(pools, poolOf(d).String())
	}
	slices.Sort(pools)
	return slices.Compact(pools)
}

// poolsOfSlice is the index of slices by their pools.
func poolsOfSlice(s *resourcev1.ResourceSlice) []string { return []string{poolOfSlice(s).String()} }

// observation is what observe returns.
type observation = reconcile.Observation[snapshot, memory]

// observe finds a pod, its devices, and what taints them.
func (k *caches) observe(_ context.Context, r reconcile.Request[memory]) (o observation, err error) {
	pod := k.pods.Get(r.Key.Namespace, r.Key.Name)
	if pod == nil {
		return o, nil
	}
	o.Exists = true
	s := &o.Snapshot
	*s = snapshot{Pod: pod, Claims: k.claimsOf(pod), Memory: ptr.Deref(r.Memory, memory{})}
	var pools []string
	for _, c := range s.Claims {
		pools = append(pools, poolsOfClaim(c)...)
	}
	slices.Sort(pools)
	for _, in := range slices.Compact(pools) {
		s.Slices = append(s.Slices, k.slices.By(in)...)
	}
	for _, rule := range k.allRules() {
		if evicts(rule) && slices.ContainsFunc(s.Claims,
			func(c *resourcev1.ResourceClaim) bool { return selectedOf(rule, c) > 0 }) {
			s.Rules = append(s.Rules, rule)
		}
	}
	k.observeMany(r.Now, s)
	return o, nil
}

// observeMany finds out which rules concern pods out of the ordinary, unless whoever made them could know.
func (k *caches) observeMany(now time.Time, s *snapshot) {
	if len(s.Rules) == 0 {
		return
	}
	n := k.count(now)
	known, _ := k.term.Get()
	for _, rule := range s.Rules {
		of := n.Rules[rule.Name]
		told := known.Previewed[rule.UID]
		if told.Generation == rule.Generation && of.Pods <= told.Pods || !k.brake.Trips(of.Pods, n.Pods) {
			continue
		}
		if s.Many == nil {
			s.Many = map[string]string{}
		}
		s.Many[rule.Name] = fmt.Sprintf("it concerns %d of %d pods with devices", of.Pods, n.Pods)
		if since, held := k.brake.Inherited(now, whatIsHeld(rule.Name)); held {
			s.Since = since
		}
	}
}

// claimsOf returns the claims whose devices a pod has.
func (k *caches) claimsOf(p *corev1.Pod) (all []*resourcev1.ResourceClaim) {
	for _, name := range podutil.DeviceClaims(p) {
		if c := k.claims.Get(p.Namespace, name); c != nil && uses(p, c) {
			all = append(all, c)
		}
	}
	return all
}

// allRules returns the rules, by name.
func (k *caches) allRules() (all []*resourcev1.DeviceTaintRule) {
	if k.rules == nil || k.rules.Missing() {
		return nil
	}
	return slices.SortedFunc(k.rules.All(), func(a, b *resourcev1.DeviceTaintRule) int {
		return cmp.Compare(a.Name, b.Name)
	})
}

// prove puts the pod and what taints its devices, as they were read live, in the place of what the caches have shown.
func prove(o observation, proof reconcile.Proof) observation {
	s := &o.Snapshot
	if live, ok, _ := reconcile.Found[*corev1.Pod](proof, podRef(s.Pod)); ok {
		if s.Gone = live == nil || live.UID != s.Pod.UID; !s.Gone {
			s.Pod = live
		}
	}
	s.Slices = proven(s.Slices, proof, sliceRef)
	s.Rules = proven(s.Rules, proof, ruleRef)
	return o
}

// proven are objects as they were read live, without those that are gone. Others are as they were.
func proven[T plan.Object](seen []T, proof reconcile.Proof, ref func(name string) plan.Ref) (all []T) {
	for _, o := range seen {
		live, ok, _ := reconcile.Found[T](proof, ref(o.GetName()))
		switch {
		case !ok:
			all = append(all, o)
		case any(live) != any(*new(T)):
			all = append(all, live)
		}
	}
	return all
}

// observeRule counts the pods that a rule concerns.
func (k *caches) observeRule(_ context.Context, r reconcile.Request[struct{}]) (
	o reconcile.Observation[ruleSnapshot, struct{}], err error,
) {
	rule := k.rules.Get("", r.Key.Name)
	if rule == nil {
		return o, nil
	}
	known, _ := k.term.Get()
	o.Exists = true
	o.Snapshot = ruleSnapshot{
		Rule: rule, Pending: k.count(r.Now).Rules[rule.Name], Evicted: known.Evicted[rule.UID],
	}
	if rule.Spec.Taint.Effect == resourcev1.DeviceTaintEffectNone {
		o.Snapshot.Published = k.published(rule)
	}
	return o, nil
}
