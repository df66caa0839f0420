package devicetainteviction

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
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
	for rule := range k.eachRule() {
		if evicts(rule) && slices.ContainsFunc(s.Claims,
			func(c *resourcev1.ResourceClaim) bool { return selectedOf(rule, c) > 0 }) {
			s.Rules = append(s.Rules, rule)
		}
	}
	slices.SortFunc(s.Rules, byName)
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
			s.Many, s.Since = map[string]string{}, map[types.UID]time.Time{}
		}
		s.Many[rule.Name] = fmt.Sprintf("it concerns %d of %d pods with devices", of.Pods, n.Pods)
		since, held := k.brake.Inherited(now, whatIsHeld(rule.Name))
		if held && !since.Before(rule.CreationTimestamp.Time) { // or it was another rule of the name
			s.Since[rule.UID] = since
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
func (k *caches) allRules() []*resourcev1.DeviceTaintRule {
	return slices.SortedFunc(k.eachRule(), byName)
}

// eachRule ranges over the rules, in no order.
func (k *caches) eachRule() iter.Seq[*resourcev1.DeviceTaintRule] {
	if k.rules == nil || k.rules.Missing() {
		return slices.Values[[]*resourcev1.DeviceTaintRule](nil)
	}
	return k.rules.All()
}

func byName(a, b *resourcev1.DeviceTaintRule) int { return cmp.Compare(a.Name, b.Name) }

// prove puts the pod and what taints its devices, as they were read live, in the place of what the caches have shown.
func prove(o observation, proof reconcile.Proof) observation {
	s := &o.Snapshot
	if live, ok, _ := reconcile.Found[*corev1.Pod](proof, podRef(s.Pod)); ok {
		if s.Gone = live == nil || live.UID != s.Pod.UID; !s.Gone {
			s.Pod = live
		}
	}
	s.Slices, s.Rules = s.provenSlices(proof), s.provenRules(proof)
	for _, r := range proof.Read {
		s.Early = s.Early || r.Began.Before(proof.Now)
	}
	return o
}

// provenSlices are the slices of the pools of devices as they were listed live. Those of drivers of which they were not
// are as the cache has shown them.
func (s *snapshot) provenSlices(proof reconcile.Proof) (all []*resourcev1.ResourceSlice) {
	pools, listed := map[pool]bool{}, map[string]bool{}
	for _, c := range s.Claims {
		for _, d := range devicesOf(c) {
			list, ok := proof.Read[slicesRef(d.Driver)]
			pools[poolOf(d)], listed[d.Driver] = true, ok && list.Err == nil
		}
	}
	for _, slice := range s.Slices {
		if !listed[slice.Spec.Driver] {
			all = append(all, slice)
		}
	}
	for driver, ok := range listed {
		if !ok {
			continue
		}
		for _, slice := range plan.Typed[*resourcev1.ResourceSlice](proof.Read[slicesRef(driver)].Objects) {
			if pools[poolOfSlice(slice)] {
				all = append(all, slice)
			}
		}
	}
	return all
}

// provenRules are the rules as they were read live, without those that are gone. Those that were not read are as the
// cache has shown them.
func (s *snapshot) provenRules(proof reconcile.Proof) (all []*resourcev1.DeviceTaintRule) {
	for _, rule := range s.Rules {
		live, ok, _ := reconcile.Found[*resourcev1.DeviceTaintRule](proof, ruleRef(rule.Name))
		if !ok {
			live = rule
		}
		if live != nil {
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
