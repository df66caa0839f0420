package suite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// squatting is the label of claims that users make where a pod wants one of its own.
const squatting = "by-hand"

func ephemeralVolumeEntry() Entry {
	return Entry{
		Controller: "ephemeral-volume-controller",
		Needs:      []string{"persistentvolumeclaim-protection-controller", "garbage-collector-controller"},
		Operations: map[string]Operation{
			// NAME volumes= image= idle=true: a pod with so many ephemeral volumes, a to c; idle ones are never scheduled; do=delete
			"ephemeral": ephemeral,
			"squat":     squat,        // CLAIM: a claim of nobody, where a pod wants its own; do=free
			"unclaim":   unclaimByPod, // CLAIM: the claim is deleted by hand
		},
		Choices: []workload.Choice{{Weight: 2, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			pod := fmt.Sprintf("eph-%s-%d", app, g.IntN(2))
			if g.IntN(3) == 0 {
				g.Add(at, "squat %s-a", pod)
			}
			g.Add(at+g.Early(), "ephemeral %s volumes=%d image=%s:1 idle=%t", pod, 1+g.IntN(3),
				workload.Pick(g, actors.Good, actors.Done, actors.Slow), g.IntN(2) == 0)
			g.Add(soon, "unclaim %s-%s", pod, workload.Pick(g, "a", "b"))
			g.Add(soon+workload.Pick(g, g.Early(), g.While()), "squat %s-a do=free", pod)
			if g.IntN(3) == 0 {
				g.Add(soon+2*g.Early(), "ephemeral %s do=delete", pod)
			}
		}}},
		Settled: ephemeralSettled,
		Scenarios: []Scenario{{Name: "pods with ephemeral volumes come and go", Play: func(u *User) {
			u.Create(squatter("eph-0-a"))
			for i := range 3 {
				u.Create(ephemeralPod(fmt.Sprint("eph-", i), 2, "web:1", false))
			}
			AwaitAll(u, 6, func(c *corev1.PersistentVolumeClaim) error {
				if c.Labels[squatting] != "" {
					return nil
				}
				return hasPod(c)
			})
			Remove[*corev1.PersistentVolumeClaim](u, "eph-0-a")
			AwaitAll(u, 6, hasPod)
			Remove[*corev1.Pod](u, "")
			AwaitAll[*corev1.PersistentVolumeClaim](u, 0, nil)
		}}},
		Malformed: map[string]string{
			"pods/odd-ephemeral": `{"apiVersion":"v1","kind":"Pod","metadata":${META},"spec":{"volumes":[{"name":"../x","ephemeral":{"volumeClaimTemplate":
				{"metadata":{"labels":{"":"/"}},"spec":{"resources":{"requests":{"storage":"-5"}}}}}},{"name":"../x","ephemeral":{"volumeClaimTemplate":{"spec":{}}}},
				{"name":"y","ephemeral":{}}]}}`,
		},
		Mutants: ephemeralMutants,
		Budgets: []Budget{{
			Name: "20 pods with two ephemeral volumes each", Floor: floor.Writes{Other: 40},
			Do: func(u *User) {
				u.Each(20, func(i int) error { return create(u, ephemeralPod(fmt.Sprint("eph-", i), 2, "web:1", false)) })
				AwaitAll(u, 40, hasPod)
			},
		}},
	}
}

// hasPod says that a claim belongs to no pod.
func hasPod(c *corev1.PersistentVolumeClaim) error {
	ref := metav1.GetControllerOf(c)
	return unless(ref != nil && ref.Kind == "Pod", "it belongs to no pod")
}

// ephemeralPod is a pod with ephemeral volumes. An idle one is scheduled by nobody.
func ephemeralPod(name string, volumes int, image string, idle bool) *corev1.Pod {
	p := newPod(name, name, image)
	if idle {
		p.Spec.SchedulerName = "nobody"
	}
	for i := range volumes {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: string("abc"[i]), VolumeSource: corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"made": "by-template"}}, Spec: newClaim("").Spec,
			}},
		}})
	}
	return p
}

func ephemeral(u *User, l script.Line) error {
	if do, _ := l.Get("do"); do == "delete" {
		return remove[*corev1.Pod](u, l.Arg(0))
	}
	volumes, _ := l.Int("volumes")
	image, _ := l.Get("image")
	return create(u, ephemeralPod(l.Arg(0), volumes, image, says(l, "idle")))
}

// squatter is a claim that has the name that a pod wants.
func squatter(name string) *corev1.PersistentVolumeClaim {
	c := newClaim(name)
	c.Labels = map[string]string{squatting: "true"}
	return c
}

func squat(u *User, l script.Line) error {
	if do, _ := l.Get("do"); do != "free" {
		return create(u, squatter(l.Arg(0)))
	}
	c, err := get[*corev1.PersistentVolumeClaim](u, l.Arg(0))
	if err != nil || c.Labels[squatting] == "" {
		return err
	}
	return remove[*corev1.PersistentVolumeClaim](u, l.Arg(0))
}

func unclaimByPod(u *User, l script.Line) error {
	return remove[*corev1.PersistentVolumeClaim](u, l.Arg(0))
}

// ephemeralSettled says which pods lack a claim, or have one that belongs to nobody, and which claims were made for pods that had ended
// long before.
func ephemeralSettled(s *View) (wrong []string) {
	for _, p := range subjects[*corev1.Pod](s) {
		if p.DeletionTimestamp != nil || ended(p) || namespaceEnds(s, p.Namespace) {
			continue
		}
		for _, v := range p.Spec.Volumes {
			if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil || strings.Contains(v.Name, "/") {
				continue
			}
			name := p.Name + "-" + v.Name
			switch c := one[*corev1.PersistentVolumeClaim](s, p.Namespace, name); {
			case c == nil: // ST-21
				wrong = append(wrong, fmt.Sprintf("the pod %s lacks the claim %s", p.Name, name))
			case !metav1.IsControlledBy(c, p) && c.Labels[squatting] == "": // ST-22
				wrong = append(wrong, fmt.Sprintf("the claim %s does not belong to the pod %s", name, p.Name))
			}
		}
	}
	return append(wrong, claimsOfEndedPods(s)...)
}

func namespaceEnds(s *View, name string) bool {
	n := one[*corev1.Namespace](s, "", name)
	return n == nil || n.DeletionTimestamp != nil
}

// claimsOfEndedPods says which claims a manager has made for pods that had ended two minutes before (ST-85). It may not have known of
// later ends.
func claimsOfEndedPods(s *View) (wrong []string) {
	since := map[string]time.Time{}
	for _, e := range s.Changes("pods") {
		if p := e.Object.(*corev1.Pod); ended(p) && since[string(p.UID)].IsZero() {
			since[string(p.UID)] = e.Time
		}
	}
	for _, e := range s.writes("persistentvolumeclaims") {
		ref := metav1.GetControllerOf(e.Object)
		if e.Before != nil || e.Deleted || ref == nil || ref.Kind != "Pod" {
			continue
		}
		if end := since[string(ref.UID)]; !end.IsZero() && e.Time.Sub(end) > 2*time.Minute {
			wrong = append(wrong,
				fmt.Sprintf("the claim %s was made for the pod %s, which had ended %v before", e.Object.GetName(), ref.Name,
					e.Time.Sub(end)))
		}
	}
	return slices.Compact(wrong)
}

const ephemeralFolder = "pkg/controllers/ephemeralvolume/"

var ephemeralMutants = []Mutant{
	{
		Name: "the claim of an ephemeral volume belongs to nobody",
		Edits: []Edit{{ephemeralFolder + "plan.go", "return plan.Create{\n\t\tObject: claim, Why:",
			"claim.OwnerReferences = nil\n\treturn plan.Create{\n\t\tUnowned: true, Object: claim, Why:"}},
		Script: withoutElection + "\n\t\t\tat 5s   ephemeral web volumes=2 image=good:1",
		Oracle: SettledOracle,
	},
	{
		Name: "a claim of somebody else is adopted",
		Edits: []Edit{{ephemeralFolder + "plan.go", "d.Foreign[name] = c.UID", `adopted := c.DeepCopy()
			adopted.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s.Pod, corev1.SchemeGroupVersion.WithKind("Pod"))}
			p.Steps = append(p.Steps, plan.Change{Old: c, New: adopted, Unowned: true})
			d.Foreign[name] = c.UID`}},
		Script: withoutElection + "\n\t\t\tat 5s   squat web-a\n\t\t\tat 10s  ephemeral web volumes=1 image=good:1",
		Oracle: "S29",
	},
	{
		Name: "the claims of ephemeral volumes have other names",
		Edits: []Edit{{ephemeralFolder + "plan.go", "Namespace: pod.Namespace, Name: podutil.EphemeralClaim(pod, v), Labels:",
			"Namespace: pod.Namespace, Name: v.Name + \"-\" + pod.Name, Labels:"}},
		Script: withoutElection + "\n\t\t\tat 5s   ephemeral web volumes=1 image=good:1",
		Oracle: SettledOracle,
	},
	{
		Name: "pods that have ended get claims",
		Edits: []Edit{{ephemeralFolder + "plan.go", "case podutil.Finished(s.Pod): // ST-85",
			"case podutil.Finished(s.Pod) && s.Pod.Name == \"\":"}},
		Script: withoutElection + `
			at 5s    squat web-a
			at 10s   ephemeral web volumes=1 image=done:1
			at 200s  squat web-a do=free`,
		Oracle: SettledOracle,
	},
	{
		Name:   "a claim that is deleted by hand is not made anew",
		Edits:  []Edit{{ephemeralFolder + "observe.go", "if name == before.GetName() {", "if name == \"\" {"}},
		Script: withoutElection + "\n\t\t\tat 5s   ephemeral web volumes=1 image=good:1 idle=true\n\t\t\tat 30s  unclaim web-a",
		Oracle: SettledOracle,
	},
	{
		Name: "a pod that waits for one claim gets no other",
		Edits: []Edit{{ephemeralFolder + "plan.go", "if len(missing.Sequences) > 0 {",
			"if len(missing.Sequences) > 0 && len(waits) == 0 {"}},
		Script: withoutElection + "\n\t\t\tat 5s   squat web-a\n\t\t\tat 10s  ephemeral web volumes=2 image=good:1",
		Oracle: SettledOracle,
	},
	{
		Name: "pods on no node get no claims",
		Edits: []Edit{{ephemeralFolder + "plan.go", "if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {",
			"if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil || s.Pod.Status.Phase == corev1.PodPending {"}},
		Script: withoutElection + "\n\t\t\tat 5s   ephemeral web volumes=1 image=good:1 idle=true",
		Oracle: SettledOracle,
	},
}
