package suite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

const claimProtection = "kubernetes.io/pvc-protection"

func claimProtectionEntry() Entry {
	return Entry{
		Controller: "persistentvolumeclaim-protection-controller",
		Needs:      []string{"persistentvolume-binder-controller"},
		Operations: map[string]Operation{
			// NAME: a claim; do=delete, strip, bind
			"pvc": pvc,
			// NAME claim=: a pod that uses the claim; image=; do=delete
			"mount": mount,
			// NAME: the pod is deleted without a grace period
			"atonce": func(u *User, l script.Line) error { return remove[*corev1.Pod](u, l.Arg(0), atOnce) },
		},
		Choices: []workload.Choice{{Weight: 2, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			claim := fmt.Sprintf("scratch-%s-%d", app, g.IntN(2))
			g.Add(at, "pvc %s", claim)
			if g.IntN(2) == 0 {
				g.Add(at+g.Early(), "pvc %s do=bind", claim)
			}
			users := 1 + g.IntN(2)
			for i := range users {
				g.Add(at+g.Early(), "mount %s-user-%d claim=%s image=%s:1", claim, i, claim,
					workload.Pick(g, actors.Good, actors.Done, actors.Slow))
			}
			if g.IntN(4) == 0 { // pods end late, if kubelets do not work
				node := g.Node()
				g.Add(soon, "node %s do=stop", node)
				g.Add(soon+10*time.Second+g.Early(), "node %s do=start", node)
			}
			if what := workload.Pick(g, "delete", "delete", "strip", "", ""); what != "" {
				g.Add(soon+g.Early(), "pvc %s do=%s", claim, what)
			}
			for i := range g.IntN(users + 1) {
				g.Add(soon+2*g.Early(), "%s %s-user-%d", workload.Pick(g, "mount do=delete", "atonce"), claim, i)
			}
		}}},
		Settled: claimsSettled,
		Scenarios: []Scenario{{Name: "claims are deleted while pods use them", Play: func(u *User) {
			u.createUsedClaims(3)
			u.deleteUsedClaims(3)
		}}},
		Malformed: map[string]string{
			"persistentvolumeclaims/absurd": `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"finalizers":["",""],${META}},"spec":{"volumeName":"../x"}}`,
			"pods/odd-volumes": `{"apiVersion":"v1","kind":"Pod","metadata":${META},"spec":{"volumes":[{},{"name":"","ephemeral":{}},
				{"name":"a","persistentVolumeClaim":{"claimName":""}},{"name":"b","persistentVolumeClaim":{"claimName":"../b"}}]}}`,
		},
		Mutants: claimProtectionMutants,
		Budgets: []Budget{{
			// each finalizer that admission has added
			Name: "50 claims are deleted, and then the pods that use them", Floor: floor.Writes{Other: 50},
			Prepare: func(u *User) { u.createUsedClaims(50) },
			Do:      func(u *User) { u.deleteUsedClaims(50) },
		}},
	}
}

// newClaim is a claim of a volume.
func newClaim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
}

// usesClaim gives a pod a volume of a claim.
func usesClaim(p *corev1.Pod, claim string) *corev1.Pod {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}})
	return p
}

// pvc makes a claim, deletes it, takes its finalizers off, or binds it.
func pvc(u *User, l script.Line) error {
	switch do, _ := l.Get("do"); do {
	case "delete":
		return remove[*corev1.PersistentVolumeClaim](u, l.Arg(0))
	case "bind": // it gets a volume
		return bindClaim(u, l.Arg(0))
	case "strip":
		return edit(u, l.Arg(0), func(c *corev1.PersistentVolumeClaim) { c.Finalizers = nil })
	}
	return create(u, newClaim(l.Arg(0)))
}

// bindClaim reserves a volume for a claim: a new one, or the one of the claim that had its name before.
func bindClaim(u *User, claim string) error {
	v := u.newVolume("for-" + claim)
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: u.Namespace, Name: claim}
	err := create(u, v)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return edit(u, v.Name, func(now *corev1.PersistentVolume) {
		if now.Status.Phase == corev1.VolumeReleased {
			now.Spec.ClaimRef = v.Spec.ClaimRef
		}
	})
}

// mount makes a pod that uses a claim, or deletes it.
func mount(u *User, l script.Line) error {
	if do, _ := l.Get("do"); do == "delete" {
		return remove[*corev1.Pod](u, l.Arg(0))
	}
	claim, _ := l.Get("claim")
	image, _ := l.Get("image")
	return create(u, usesClaim(newPod(l.Arg(0), l.Arg(0), image), claim))
}

// claimsSettled says which claims lack the finalizer, which should be gone, which have lost the finalizer while a pod used them, and
// which do not say whether a pod uses them.
func claimsSettled(s *View) (wrong []string) {
	pods := all[*corev1.Pod](s)
	for _, c := range subjects[*corev1.PersistentVolumeClaim](s) {
		user := slices.IndexFunc(pods, func(p *corev1.Pod) bool { return mounts(p, c) })
		switch has := slices.Contains(c.Finalizers, claimProtection); {
		case !has && c.DeletionTimestamp == nil: // SM-35
			wrong = append(wrong, fmt.Sprintf("the claim %s lacks the finalizer", c.Name))
		case has && c.DeletionTimestamp != nil && user < 0: // SM-36
			wrong = append(wrong, fmt.Sprintf("the claim %s is still there, and no pod uses it", c.Name))
		}
		if c.DeletionTimestamp == nil && c.Status.Phase == corev1.ClaimBound { // SM-39
			named := slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
				return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed && namesClaim(p, c)
			})
			if got := unusedSays(c); got != fmt.Sprint(!named) {
				wrong = append(wrong, fmt.Sprintf("the claim %s says %q, and that a pod uses it is %t", c.Name, got, named))
			}
		}
	}
	for _, e := range s.writes("persistentvolumeclaims") {
		if !lostFinalizer(e, claimProtection) {
			continue
		}
		before := e.Before.(*corev1.PersistentVolumeClaim)
		if p := userSince(s, before, e.Version-1); p != nil { // SM-36, SM-37
			wrong = append(wrong, fmt.Sprintf("the claim %s has lost the finalizer while the pod %s used it", before.Name, p.Name))
		}
	}
	return wrong
}

// mounts reports whether a pod on a node uses a claim. One that has no time left to end does not keep a claim of its own.
func mounts(p *corev1.Pod, c *corev1.PersistentVolumeClaim) bool {
	if p.DeletionTimestamp != nil && ptr.Deref(p.DeletionGracePeriodSeconds, 1) == 0 && metav1.IsControlledBy(c, p) {
		return false
	}
	return p.Spec.NodeName != "" && namesClaim(p, c)
}

// namesClaim reports whether a volume of a pod names a claim, or is an ephemeral one whose claim it is.
func namesClaim(p *corev1.Pod, c *corev1.PersistentVolumeClaim) bool {
	return p.Namespace == c.Namespace && slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == c.Name ||
			v.Ephemeral != nil && p.Name+"-"+v.Name == c.Name && metav1.IsControlledBy(c, p)
	})
}

// unusedSays returns whether a claim says that it is unused: "true", "false", or nothing.
func unusedSays(c *corev1.PersistentVolumeClaim) string {
	for _, condition := range c.Status.Conditions {
		if condition.Type == corev1.PersistentVolumeClaimUnused {
			return strings.ToLower(string(condition.Status))
		}
	}
	return ""
}

// userSince returns a pod that used the claim at a version, and that was on its node before the claim was deleted: the scheduler of the
// simulation does not look at claims, as a real one does, which refuses those that are being deleted.
func userSince(s *View, c *corev1.PersistentVolumeClaim, version uint64) *corev1.Pod {
	bound := map[string]time.Time{}
	for _, e := range s.Changes("pods") {
		p := e.Object.(*corev1.Pod)
		if before, ok := e.Before.(*corev1.Pod); p.Spec.NodeName != "" && (!ok || before.Spec.NodeName == "") {
			bound[string(p.UID)] = e.Time
		}
	}
	for _, o := range s.past("pods", version) {
		if p := o.(*corev1.Pod); mounts(p, c) && c.DeletionTimestamp != nil && bound[string(p.UID)].Before(c.DeletionTimestamp.Time) {
			return p
		}
	}
	return nil
}

const (
	claimPlan    = "pkg/controllers/pvcprotection/plan.go"
	claimObserve = "pkg/controllers/pvcprotection/observe.go"

	usedClaim = withoutElection + `
			at 5s   pvc data
			at 10s  mount web claim=data image=good:1`
)

var claimProtectionMutants = []Mutant{
	{
		Name: "a claim goes that a pod uses",
		Edits: []Edit{{claimPlan, "case c.Pod != \"\":", "case c.Pod == \"nobody\":"},
			{claimPlan, "case !c.Checked:", "case c.Pod == \"somebody\":"}},
		Script: usedClaim + "\n\t\t\tat 30s  pvc data do=delete",
		Oracle: SettledOracle,
	},
	{
		Name:  "a claim goes on the word of the cache",
		Edits: []Edit{{claimPlan, "case !c.Checked:", "case c.Pod == \"somebody\":"}},
		Script: withoutElection + `
			at 5s   pvc data
			at 8s   fault m0 freeze pods for=60s
			at 10s  mount web claim=data image=good:1
			at 30s  pvc data do=delete`,
		Oracle: SettledOracle,
	},
	{
		Name:   "the end of a pod does not let its claim go",
		Edits:  []Edit{{claimObserve, "is != nil && is.UID == was.UID && (over(was) || !over(is))", "is != nil || was.Name != \"\""}},
		Script: usedClaim + "\n\t\t\tat 30s  pvc data do=delete\n\t\t\tat 60s  mount web do=delete",
		Oracle: SettledOracle,
	},
	{
		Name: "pods that have ended do not keep their claims",
		Edits: []Edit{{claimPlan, "return p.Spec.NodeName != \"\" && mounts(p, c)",
			"return p.Spec.NodeName != \"\" && p.DeletionTimestamp == nil && mounts(p, c)"}},
		Script: usedClaim + `
			at 28s  node node-0 do=stop
			at 28s  node node-1 do=stop
			at 28s  node node-2 do=stop
			at 30s  mount web do=delete
			at 31s  pvc data do=delete
			at 45s  node node-0 do=start
			at 45s  node node-1 do=start
			at 45s  node node-2 do=start`,
		Oracle: SettledOracle,
	},
	{
		Name: "a claim does not say that its pod has gone",
		Edits: []Edit{{"pkg/controllers/pvcprotection/plan_unused.go", "return at < 0 || (u.Claim",
			"return at < 0 || u.Pod != \"\" && (u.Claim"}},
		Script: usedClaim + "\n\t\t\tat 15s  pvc data do=bind\n\t\t\tat 60s  mount web do=delete",
		Oracle: SettledOracle,
	},
	{
		Name:   "a claim that has lost its finalizer does not get it back",
		Edits:  []Edit{{claimObserve, "if !protection.Due(after) {", "if !protection.Due(after) || after.GetDeletionTimestamp() == nil {"}},
		Script: withoutElection + "\n\t\t\tat 5s   pvc data\n\t\t\tat 30s  pvc data do=strip",
		Oracle: SettledOracle,
	},
}

// createUsedClaims creates claims, each with a pod that uses it, and waits until the pods are on nodes.
func (u *User) createUsedClaims(n int) {
	u.Helper()
	u.Each(n, func(i int) error {
		name := fmt.Sprint("data-", i)
		u.Create(newClaim(name))
		u.Create(usesClaim(newPod("user-"+name, "user", "web:1"), name))
		return nil
	})
	AwaitAll(u, n, func(p *corev1.Pod) error { return unless(p.Spec.NodeName != "", "it is on no node") })
}

// deleteUsedClaims deletes all claims, which stay as long as their pods, and then the pods.
func (u *User) deleteUsedClaims(n int) {
	u.Helper()
	Remove[*corev1.PersistentVolumeClaim](u, "")
	AwaitAll(u, n, func(c *corev1.PersistentVolumeClaim) error {
		return unless(c.DeletionTimestamp != nil, "it was not deleted")
	})
	Remove[*corev1.Pod](u, "")
	AwaitAll[*corev1.PersistentVolumeClaim](u, 0, nil)
}
