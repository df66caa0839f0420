package suite

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func resourceClaimEntry() Entry {
	return Entry{
		Controller: "resourceclaim-controller",
		Needs:      []string{"garbage-collector-controller"},
		Operations: map[string]Operation{
			"devicetemplate": deviceTemplate, // NAME: a template of claims for devices; do=delete
			// NAME tolerate=: a claim that pods may share, which tolerates taints for so many seconds; negative: for ever; do=delete
			"deviceclaim": deviceClaim,
			// NAME template= entries= claim= image= idle=true node=: a pod with so many claims of the template, and one that it shares;
			// idle ones are never scheduled; with a node nobody schedules it, and it is there at once; do=delete
			"devicepod":  devicePod,
			"devicelost": deviceLost, // POD: its claims are deleted by hand
		},
		Choices: []workload.Choice{{Weight: 2, Add: useDevices}},
		Settled: deviceClaimsSettled,
		Scenarios: []Scenario{{Name: "pods with devices come, end and go", Play: func(u *User) {
			u.Create(newDeviceTemplate("gpus"))
			for i := range 3 {
				u.Create(newDevicePod(fmt.Sprint("dev-", i), "gpus", 2, "", "web:1", true))
			}
			AwaitAll(u, 3, hasDevices)
			AwaitAll(u, 6, belongsToPod)
			u.reserveAll()
			u.failPod("dev-0")
			AwaitAll(u, 4, belongsToPod)
			Remove[*corev1.Pod](u, "")
			AwaitAll[*resourcev1.ResourceClaim](u, 0, nil)
		}}},
		Malformed: map[string]string{
			"pods/odd-devices": `{"apiVersion":"v1","kind":"Pod","metadata":${META},"spec":{"resourceClaims":[{"name":"../x"},{"name":"","resourceClaimTemplateName":"/"},
				{"name":"y","resourceClaimName":"../z"}]},"status":{"resourceClaimStatuses":[{"name":"y","resourceClaimName":""},{"name":"y"}],"extendedResourceClaimStatus":{"resourceClaimName":"/"}}}`,
			"resourceclaims/odd-claim": `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":${META},"spec":{"devices":{"requests":[{"name":""}]}},
				"status":{"allocation":{},"reservedFor":[{"resource":"pods","name":"","uid":""},{"resource":"pods","name":"../x","uid":"1"},{"apiGroup":"x","resource":"","name":"","uid":"2"}]}}`,
			"resourceclaimtemplates/odd-template": `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaimTemplate","metadata":${META},"spec":{"metadata":{"labels":{"":"/"}},"spec":{"devices":{}}}}`,
		},
		Mutants: resourceClaimMutants,
		Budgets: deviceBudgets(),
	}
}

// useDevices is what users do: pods come with claims of their own and with one that they share, lose claims, end and go.
func useDevices(g *workload.Generator, app string, at, soon time.Duration) {
	template, shared := "gpus-"+app, "gpu-"+app
	g.Add(at+workload.Pick(g, 0, g.Early(), g.While()), "devicetemplate %s", template)
	g.Add(at, "deviceclaim %s", shared)
	for i := range 2 {
		pod, more := fmt.Sprintf("dev-%s-%d", app, i), ""
		if g.IntN(3) > 0 {
			more += " claim=" + shared
		}
		if i == 1 && g.IntN(2) == 0 {
			more += fmt.Sprintf(" node=node-%d", g.IntN(2))
		}
		g.Add(at+g.Early(), "devicepod %s template=%s entries=%d image=%s:1 idle=%t%s", pod, template, g.IntN(3),
			workload.Pick(g, actors.Good, actors.Done, actors.Flop), g.IntN(4) == 0, more)
		switch g.IntN(4) {
		case 0:
			g.Add(soon+g.Early(), "devicelost %s", pod)
		case 1, 2:
			g.Add(soon+g.While(), "devicepod %s do=delete", pod)
		}
	}
	if g.IntN(3) == 0 {
		g.Add(soon+g.While(), "deviceclaim %s do=delete", shared)
	}
}

func deviceBudgets() []Budget {
	return []Budget{{
		Name: "20 pods with a claim of a template each", Floor: floor.Writes{Status: 20, Other: 20},
		Prepare: func(u *User) { u.Create(newDeviceTemplate("gpus")) },
		Do: func(u *User) {
			u.Each(20, func(i int) error { return create(u, newDevicePod(fmt.Sprint("dev-", i), "gpus", 1, "", "web:1", true)) })
			AwaitAll(u, 20, hasDevices)
		},
	}, {
		// of each claim the reservation, the finalizer, and the claim itself
		Name: "20 pods end that have a claim of a template each", Floor: floor.Writes{Status: 20, Other: 40},
		Prepare: func(u *User) {
			u.Create(newDeviceTemplate("gpus"))
			u.Each(20, func(i int) error { return create(u, newDevicePod(fmt.Sprint("dev-", i), "gpus", 1, "", "web:1", true)) })
			AwaitAll(u, 20, hasDevices)
			u.reserveAll()
		},
		Do: func(u *User) {
			for i := range 20 {
				u.failPod(fmt.Sprint("dev-", i))
			}
			AwaitAll[*resourcev1.ResourceClaim](u, 0, nil)
		},
	}}
}

// deviceRequests asks for a device.
func deviceRequests() resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "gpu",
		Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com",
			AllocationMode: resourcev1.DeviceAllocationModeExactCount,
			Count:          1}}}}}
}

func newDeviceTemplate(name string) *resourcev1.ResourceClaimTemplate {
	return &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceClaimTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"made": "by-template"}, Annotations: map[string]string{"note": name}},
		Spec:       deviceRequests(),
	}}
}

// newDevicePod is a pod with so many claims of a template, and one that it shares, unless that is empty. An idle one is scheduled by
// nobody.
func newDevicePod(name, template string, entries int, shared, image string, idle bool) *corev1.Pod {
	p := newPod(name, name, image)
	if idle {
		p.Spec.SchedulerName = "nobody"
	}
	for i := range entries {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims,
			corev1.PodResourceClaim{Name: string("abc"[i]), ResourceClaimTemplateName: &template})
	}
	if shared != "" {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "shared", ResourceClaimName: &shared})
	}
	return p
}

// hasDevices says which entries of a pod have no claim.
func hasDevices(p *corev1.Pod) error {
	for _, e := range p.Spec.ResourceClaims {
		if e.ResourceClaimTemplateName != nil && recordedClaim(p, e.Name) == "" {
			return fmt.Errorf("it has no claim for %s", e.Name)
		}
	}
	return nil
}

// belongsToPod says that a claim belongs to no pod.
func belongsToPod(c *resourcev1.ResourceClaim) error {
	ref := metav1.GetControllerOf(c)
	return unless(ref != nil && ref.Kind == "Pod", "it belongs to no pod")
}

// recordedClaim is the claim that the status of a pod names for an entry.
func recordedClaim(p *corev1.Pod, entry string) string {
	for _, s := range p.Status.ResourceClaimStatuses {
		if s.Name == entry {
			return ptr.Deref(s.ResourceClaimName, "")
		}
	}
	return ""
}

// reserveAll gives all claims devices and reserves them for their pods, as the scheduler does otherwise.
func (u *User) reserveAll() {
	u.Helper()
	u.Try("give all claims devices", func() error {
		claims, err := list[*resourcev1.ResourceClaim](u)
		for _, c := range claims {
			ref := metav1.GetControllerOf(c)
			if ref == nil || err != nil {
				continue
			}
			err = edit(u, c.Name, func(c *resourcev1.ResourceClaim) {
				if !slices.Contains(c.Finalizers, resourcev1.Finalizer) {
					c.Finalizers = append(c.Finalizers, resourcev1.Finalizer)
				}
			})
			if err == nil {
				owner := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: ref.Name, UID: ref.UID}}
				err = edit(u, c.Name, func(c *resourcev1.ResourceClaim) { actors.Allocate(c, u.unique(actors.Pool), owner) }, "status")
			}
		}
		return err
	})
}

// failPod has a pod fail.
func (u *User) failPod(name string) {
	u.Helper()
	u.Try(name+" fails", func() error {
		return edit(u, name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, "status")
	})
}

func deviceTemplate(u *User, l script.Line) error {
	if do, _ := l.Get("do"); do == "delete" {
		return remove[*resourcev1.ResourceClaimTemplate](u, l.Arg(0))
	}
	return create(u, newDeviceTemplate(l.Arg(0)))
}

func deviceClaim(u *User, l script.Line) error {
	if do, _ := l.Get("do"); do == "delete" {
		return remove[*resourcev1.ResourceClaim](u, l.Arg(0))
	}
	return create(u, newDeviceClaim(l.Arg(0), tolerationsOf(l)...))
}

// newDeviceClaim is a claim that tolerates taints of its device.
func newDeviceClaim(name string, tolerations ...resourcev1.DeviceToleration) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: deviceRequests()}
	c.Spec.Devices.Requests[0].Exactly.Tolerations = tolerations
	return c
}

func devicePod(u *User, l script.Line) error {
	if do, _ := l.Get("do"); do == "delete" {
		return remove[*corev1.Pod](u, l.Arg(0))
	}
	template, _ := l.Get("template")
	entries, _ := l.Int("entries")
	shared, _ := l.Get("claim")
	image, _ := l.Get("image")
	p := newDevicePod(l.Arg(0), template, entries, shared, image, says(l, "idle"))
	p.Spec.NodeName, _ = l.Get("node")
	return create(u, p)
}

// deviceLost deletes the claims that belong to a pod.
func deviceLost(u *User, l script.Line) error {
	claims, err := list[*resourcev1.ResourceClaim](u)
	for _, c := range claims {
		if ref := metav1.GetControllerOf(c); err == nil && ref != nil && ref.Name == l.Arg(0) {
			err = ignoreNotFound(remove[*resourcev1.ResourceClaim](u, c.Name))
		}
	}
	return err
}

// deviceClaimsSettled says which pods lack a claim or a reservation, which claims are reserved for pods that need them no more, and
// which should be gone.
func deviceClaimsSettled(s *View) (wrong []string) {
	live, ends := map[types.UID]bool{}, map[types.UID]bool{} // pods that may run, and those that never do again
	for _, p := range subjects[*corev1.Pod](s) {
		never := ended(p) || p.DeletionTimestamp != nil && p.Spec.NodeName == ""
		live[p.UID], ends[p.UID] = !never, never
		if !never && p.DeletionTimestamp == nil && !namespaceEnds(s, p.Namespace) {
			wrong = append(wrong, lackingDevices(s, p)...)
		}
	}
	made := map[string]string{}
	for _, c := range subjects[*resourcev1.ResourceClaim](s) {
		note := func(text string, about ...any) {
			wrong = append(wrong, fmt.Sprintf("the claim %s/%s ", c.Namespace, c.Name)+fmt.Sprintf(text, about...))
		}
		for _, r := range c.Status.ReservedFor { // RC-130
			if r.Resource == "pods" && r.APIGroup == "" && !live[r.UID] {
				note("is reserved for the pod %s (uid %s), which needs it no more", r.Name, r.UID)
			}
		}
		unused := len(c.Status.ReservedFor) == 0
		if unused && c.DeletionTimestamp != nil && slices.Contains(c.Finalizers, resourcev1.Finalizer) { // RC-133
			note("is being deleted, and nobody lets it go")
		}
		ref := metav1.GetControllerOf(c)
		if ref == nil || ref.Kind != "Pod" {
			continue
		}
		if unused && ends[ref.UID] && len(c.Finalizers) == 0 { // RC-134
			note("is there, although its pod %s has ended", ref.Name)
		}
		of := string(ref.UID) + "/" + c.Annotations[resourcev1.PodResourceClaimAnnotation]
		if made[of] != "" && c.DeletionTimestamp == nil { // RC-122
			note("was made for the same entry of the pod %s as %s", ref.Name, made[of])
		}
		made[of] = c.Name
	}
	return append(wrong, keptDevices(s)...)
}

// lackingDevices says which claims and reservations a pod lacks.
func lackingDevices(s *View, p *corev1.Pod) (wrong []string) {
	for _, e := range p.Spec.ResourceClaims {
		name, own := ptr.Deref(e.ResourceClaimName, ""), false
		if e.ResourceClaimTemplateName != nil {
			name, own = recordedClaim(p, e.Name), true
		}
		c := one[*resourcev1.ResourceClaim](s, p.Namespace, name)
		switch {
		case own && one[*resourcev1.ResourceClaimTemplate](s, p.Namespace, *e.ResourceClaimTemplateName) == nil:
		case own && (c == nil || !metav1.IsControlledBy(c, p)): // RC-121
			wrong = append(wrong, fmt.Sprintf("the pod %s/%s lacks the claim of %s", p.Namespace, p.Name, e.Name))
		case c == nil || c.Status.Allocation == nil || c.DeletionTimestamp != nil || p.Spec.NodeName == "":
		case !slices.ContainsFunc(c.Status.ReservedFor,
			func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == p.UID }): // RC-127
			wrong = append(wrong, fmt.Sprintf("the pod %s/%s has not reserved the claim %s", p.Namespace, p.Name, c.Name))
		}
	}
	return wrong
}

// keptDevices says of which claims a manager has taken the last reservation away and not the devices (RC-131).
func keptDevices(s *View) (wrong []string) {
	for _, e := range s.writes("resourceclaims") {
		before, _ := e.Before.(*resourcev1.ResourceClaim)
		after := e.Object.(*resourcev1.ResourceClaim)
		if before != nil && len(before.Status.ReservedFor) > 0 && len(after.Status.ReservedFor) == 0 && after.Status.Allocation != nil &&
			slices.Contains(after.Finalizers, resourcev1.Finalizer) {
			wrong = append(wrong, fmt.Sprintf("the claim %s keeps its devices, and nobody uses them", after.Name))
		}
	}
	return wrong
}

const (
	deviceFolder = "pkg/controllers/resourceclaim/"
	withDevices  = withoutElection + "\n\t\t\tat 5s   devicetemplate gpus"
)

var resourceClaimMutants = []Mutant{
	{
		Name:   "reservations of pods that have ended stay",
		Edits:  []Edit{{deviceFolder + "plan.go", "return podutil.Finished(p) || p.DeletionTimestamp", "return p.DeletionTimestamp"}},
		Script: withDevices + "\n\t\t\tat 10s  devicepod web template=gpus entries=1 image=done:1",
		Oracle: SettledOracle,
	},
	{
		Name: "a reservation goes because the cache lacks its pod",
		Edits: []Edit{{deviceFolder + "observe_release.go", "case gone[uid], over, !mayExist(ref.Name):",
			"case gone[uid], over, !seen, !mayExist(ref.Name):"}},
		Script: withDevices +
			"\n\t\t\tat 9s   fault m0 freeze pods for=60s\n\t\t\tat 10s  deviceclaim one\n\t\t\tat 11s  devicepod web entries=0 claim=one " +
			"image=good:1",
		Oracle: "S37",
	},
	{
		Name: "devices of claims that nobody uses are kept",
		Edits: []Edit{{deviceFolder + "plan_release.go", "if release && c.Status.Allocation != nil {",
			"if release && c.Status.Allocation == nil {"}},
		Script: withoutElection + "\n\t\t\tat 5s   deviceclaim one\n\t\t\tat 10s  devicepod web entries=0 claim=one image=done:1",
		Oracle: SettledOracle,
	},
	{
		Name: "a claim goes with the end of any pod that uses it",
		Edits: []Edit{{deviceFolder + "plan_release.go", "owner := podOf(c); unused && owner != nil && s.Over[owner.UID] && !s.OwnerGone",
			"owner := podOf(c); owner != nil && (s.Over[owner.UID] || dropped > 0) || unused"}},
		Script: withoutElection + "\n\t\t\tat 5s   deviceclaim one\n\t\t\tat 10s  devicepod web entries=0 claim=one image=done:1",
		Oracle: "S37",
	},
	{
		Name: "claims do not say for which entry they are",
		Edits: []Edit{{deviceFolder + "plan.go", "resourcev1.PodResourceClaimAnnotation, e.Name)",
			"resourcev1.PodResourceClaimAnnotation, \"x-\"+e.Name)"}},
		Script: withDevices + "\n\t\t\tat 10s  devicepod web template=gpus entries=1 image=good:1",
		Oracle: SettledOracle,
	},
	{
		Name: "a template that comes late makes no claims",
		Edits: []Edit{{deviceFolder + "observe.go", "if after == nil {\n\t\treturn nil\n\t}\n\treturn lacking(k.byTemplate",
			"if after != nil {\n\t\treturn nil\n\t}\n\treturn lacking(k.byTemplate"}},
		Script: withoutElection + "\n\t\t\tat 5s   devicepod web template=gpus entries=1 image=good:1\n\t\t\tat 40s  devicetemplate gpus",
		Oracle: SettledOracle,
	},
	{
		Name: "a claim of a device that is deleted by hand is not made anew",
		Edits: []Edit{{deviceFolder + "observe.go", "for _, c := range changedOwner(before, after) {",
			"for _, c := range changedOwner(nil, after) {"}},
		Script: withDevices + "\n\t\t\tat 10s  devicepod web template=gpus entries=1 image=good:1 idle=true\n\t\t\tat 40s  devicelost web",
		Oracle: SettledOracle,
	},
	{
		Name:  "pods that were placed without the scheduler get no reservation",
		Edits: []Edit{{deviceFolder + "plan_release.go", "n := min(room, len(s.Waiting))", "n := min(room, len(s.Waiting), 0)"}},
		Script: withoutElection + `
			at 5s   deviceclaim one
			at 10s  devicepod first entries=0 claim=one image=good:1
			at 40s  devicepod second entries=0 claim=one image=good:1 node=node-0`,
		Oracle: SettledOracle,
	},
}
