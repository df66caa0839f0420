package suite

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

const classProtection = "kubernetes.io/vac-protection"

func classProtectionEntry() Entry {
	return Entry{
		Controller: "volumeattributesclass-protection-controller",
		Needs:      []string{"persistentvolumeclaim-protection-controller"}, // or no claim goes
		Operations: map[string]Operation{
			"attributes": attributesClass, // NAME: a VolumeAttributesClass; do=delete, strip
			// NAME class= by=spec: a claim that refers to the class; by=current, target: by its status, as a driver says; do=delete
			"tuned":    tunedClaim,
			"untuned":  untunedClaim, // NAME: the status of the claim refers to no class any more
			"tunedisk": tunedVolume,  // NAME class=: a volume that refers to the class; do=delete
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			class := fmt.Sprintf("tier-%s-%d", app, g.IntN(2))
			g.Add(at, "attributes %s", class)
			g.Add(at+g.Early(), "tuned tuned-%s class=%s by=%s", app, class, workload.Pick(g, "spec", "current", "target"))
			if g.IntN(2) == 0 {
				g.Add(at+g.Early(), "tunedisk tuned-%s class=%s", app, class)
			}
			if soon = soon + g.Early(); g.IntN(3) == 0 {
				g.Add(soon, "attributes %s do=strip", class)
				return
			}
			g.Add(soon, "attributes %s do=delete", class)
			if g.IntN(3) == 0 {
				return // who uses it stays
			}
			g.Add(soon+g.Early(), "%s tuned-%s", workload.Pick(g, "tuned do=delete", "untuned"), app)
			g.Add(soon+2*g.Early(), "tunedisk tuned-%s do=delete", app)
		}}},
		Settled: classesSettled,
		Scenarios: []Scenario{{Name: "attributes classes are deleted while they are used", Play: func(u *User) {
			u.tunedClaims(3)
			u.doomClasses(3)
			Remove[*corev1.PersistentVolumeClaim](u, "")
			u.classesGo(3)
		}}},
		Malformed: map[string]string{
			"volumeattributesclasses/absurd": `{"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttributesClass","metadata":{"finalizers":["",""],${META}},"driverName":"","parameters":{"":""}}`,
			"persistentvolumeclaims/odd-class": `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":${META},"spec":{"volumeAttributesClassName":"../x"},
				"status":{"currentVolumeAttributesClassName":"","modifyVolumeStatus":{"targetVolumeAttributesClassName":"/","status":""}}}`,
		},
		Mutants: classProtectionMutants,
		Budgets: []Budget{{
			// each finalizer that admission has added
			Name: "20 attributes classes are deleted, and then their claims leave them", Floor: floor.Writes{Other: 20},
			Prepare: func(u *User) { u.tunedClaims(20) },
			Do: func(u *User) {
				u.doomClasses(20)
				u.Each(20, func(i int) error { return u.refer(fmt.Sprint("tuned-", i), "current", "") })
				u.classesGo(20)
			},
		}},
	}
}

func (u *User) newAttributesClass(name string) *storagev1.VolumeAttributesClass {
	c := &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: u.unique(name)}, DriverName: "csi.example.com",
		Parameters: map[string]string{"iops": "1000"}}
	u.mark(c)
	return c
}

// refer has the status of a claim say that its volume has a class, or is about to get it, which the resizer of its driver does
// otherwise. No class is none.
func (u *User) refer(claim, by, class string) error {
	return edit(u, claim, func(c *corev1.PersistentVolumeClaim) {
		c.Status.CurrentVolumeAttributesClassName, c.Status.ModifyVolumeStatus = nil, nil
		switch {
		case class == "":
		case by == "current":
			c.Status.CurrentVolumeAttributesClassName = &class
		case by == "target":
			c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: class,
				Status: corev1.PersistentVolumeClaimModifyVolumePending}
		}
	}, "status")
}

// tunedClaims makes classes and claims that have them.
func (u *User) tunedClaims(n int) {
	u.Helper()
	u.Each(n, func(i int) error {
		class, claim := fmt.Sprint("tier-", i), fmt.Sprint("tuned-", i)
		u.Create(u.newAttributesClass(class))
		u.Create(newClaim(claim))
		u.Try(claim+" has a class", func() error { return u.refer(claim, "current", u.unique(class)) })
		return nil
	})
}

// doomClasses deletes classes, which stay as long as they are used.
func (u *User) doomClasses(n int) {
	u.Helper()
	for i := range n {
		Remove[*storagev1.VolumeAttributesClass](u, u.unique(fmt.Sprint("tier-", i)))
	}
	for i := range n {
		Await(u, u.unique(fmt.Sprint("tier-", i)), func(c *storagev1.VolumeAttributesClass) error {
			return unless(c.DeletionTimestamp != nil, "it was not deleted")
		})
	}
}

func (u *User) classesGo(n int) {
	u.Helper()
	for i := range n {
		AwaitGone[*storagev1.VolumeAttributesClass](u, u.unique(fmt.Sprint("tier-", i)))
	}
}

func attributesClass(u *User, l script.Line) error {
	name := u.unique(l.Arg(0))
	switch do, _ := l.Get("do"); do {
	case "delete":
		return remove[*storagev1.VolumeAttributesClass](u, name)
	case "strip":
		return edit(u, name, func(c *storagev1.VolumeAttributesClass) { c.Finalizers = nil })
	}
	return create(u, u.newAttributesClass(l.Arg(0)))
}

func tunedClaim(u *User, l script.Line) error {
	if do, _ := l.Get("do"); do == "delete" {
		return remove[*corev1.PersistentVolumeClaim](u, l.Arg(0))
	}
	class, _ := l.Get("class")
	by, _ := l.Get("by")
	c := newClaim(l.Arg(0))
	if by == "spec" {
		c.Spec.VolumeAttributesClassName = ptr.To(u.unique(class))
	}
	if err := create(u, c); err != nil || by == "spec" {
		return err
	}
	return u.refer(c.Name, by, u.unique(class))
}

func untunedClaim(u *User, l script.Line) error { return u.refer(l.Arg(0), "", "") }

// tunedVolume makes a volume that refers to a class, or deletes it.
func tunedVolume(u *User, l script.Line) error {
	name := u.unique("disk-of-" + l.Arg(0))
	if do, _ := l.Get("do"); do == "delete" {
		return remove[*corev1.PersistentVolume](u, name)
	}
	class, _ := l.Get("class")
	v := u.newVolume("disk-of-" + l.Arg(0))
	v.Spec.VolumeAttributesClassName = ptr.To(u.unique(class))
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com",
		VolumeHandle: name}}
	return create(u, v)
}

// classesSettled says which classes lack the finalizer, which should be gone, and which have lost the finalizer right after their
// deletion while somebody used them who was there before.
func classesSettled(s *View) (wrong []string) {
	claims, volumes := all[*corev1.PersistentVolumeClaim](s), all[*corev1.PersistentVolume](s)
	for _, c := range subjects[*storagev1.VolumeAttributesClass](s) {
		used := slices.ContainsFunc(claims, func(o *corev1.PersistentVolumeClaim) bool { return usesClass(o, c.Name) }) ||
			slices.ContainsFunc(volumes, func(o *corev1.PersistentVolume) bool { return usesClass(o, c.Name) })
		switch has := slices.Contains(c.Finalizers, classProtection); {
		case !has && c.DeletionTimestamp == nil: // ST-43
			wrong = append(wrong, fmt.Sprintf("the class %s lacks the finalizer", c.Name))
		case has && c.DeletionTimestamp != nil && !used: // ST-43
			wrong = append(wrong, fmt.Sprintf("the class %s is still there, and nobody uses it", c.Name))
		}
	}
	for _, e := range s.writes("volumeattributesclasses") {
		if !lostFinalizer(e, classProtection) {
			continue
		}
		if user := olderUser(s, e); user != "" { // ST-94
			wrong = append(wrong,
				fmt.Sprintf("the class %s has lost the finalizer %v after its deletion, while %s used it", e.Object.GetName(),
					e.Time.Sub(e.Before.GetDeletionTimestamp().Time), user))
		}
	}
	return wrong
}

// usesClass reports whether a claim or a volume refers to a class.
func usesClass(o Object, class string) bool {
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		m := o.Status.ModifyVolumeStatus
		return ptr.Deref(o.Spec.VolumeAttributesClassName, "") == class ||
			ptr.Deref(o.Status.CurrentVolumeAttributesClassName, "") == class ||
			m != nil && m.TargetVolumeAttributesClassName == class
	case *corev1.PersistentVolume:
		return ptr.Deref(o.Spec.VolumeAttributesClassName, "") == class
	}
	return false
}

// olderUser returns who used a class when it lost the finalizer, and had used it before the deletion, if the two were less than three
// seconds apart. A manager may trust caches that show nothing new for longer than that.
func olderUser(s *View, e Change) string {
	doomed := e.Before.GetDeletionTimestamp()
	if doomed == nil || e.Time.Sub(doomed.Time) > 3*time.Second {
		return ""
	}
	for _, resource := range []string{"persistentvolumeclaims", "persistentvolumes"} {
		before := map[types.UID]bool{} // the end of the second before that of the deletion
		for _, c := range s.Changes(resource) {
			if c.Time.Before(doomed.Time) {
				before[c.Object.GetUID()] = usesClass(c.Object, e.Object.GetName())
			}
		}
		for _, o := range s.past(resource, e.Version-1) {
			if before[o.GetUID()] && usesClass(o, e.Object.GetName()) {
				return fmt.Sprintf("the object %s of %s", o.GetName(), resource)
			}
		}
	}
	return ""
}

const (
	classFolder = "pkg/controllers/vacprotection/"
	tunedBy     = withoutElection + `
			at 5s   attributes gold
			at 10s  tuned data class=gold by=`
	deletedClass = "\n\t\t\tat 40s  attributes gold do=delete"
)

var classProtectionMutants = []Mutant{
	{
		Name:   "a class goes that a claim uses",
		Edits:  []Edit{{classFolder + "plan.go", "case s.Claims.Count+s.Volumes.Count > 0:", "case s.Volumes.Count > 0:"}},
		Script: tunedBy + "spec" + deletedClass,
		Oracle: "S29",
	},
	{
		Name:   "a class goes that a volume uses",
		Edits:  []Edit{{classFolder + "plan.go", "case s.Claims.Count+s.Volumes.Count > 0:", "case s.Claims.Count > 0:"}},
		Script: withoutElection + "\n\t\t\tat 5s   attributes gold\n\t\t\tat 10s  tunedisk data class=gold" + deletedClass,
		Oracle: "S29",
	},
	{
		Name: "a class goes that a claim is about to have",
		Edits: []Edit{{classFolder + "plan.go", "names = append(names, m.TargetVolumeAttributesClassName)",
			"names = append(names, string(m.Status))"}},
		Script: tunedBy + "target" + deletedClass,
		Oracle: "S29",
	},
	{
		Name: "a class goes on the word of a cache that is older than its deletion",
		Edits: []Edit{{classFolder + "plan.go", "case !s.Proved && now.Before(c.DeletionTimestamp.Add(cacheTimeout)):",
			"case !s.Proved && now.IsZero():"}},
		Script: withoutElection + `
			at 5s   attributes gold
			at 8s   fault m0 freeze persistentvolumeclaims for=60s
			at 10s  tuned data class=gold by=spec
			at 40s  attributes gold do=delete`,
		Oracle: SettledOracle,
	},
	{
		Name: "the end of a claim does not let its class go",
		Edits: []Edit{{classFolder + "observe.go", "class != nil && class.DeletionTimestamp != nil {",
			"class != nil && class.DeletionTimestamp == nil {"}},
		Script: tunedBy + "current" + deletedClass + "\n\t\t\tat 90s  untuned data",
		Oracle: SettledOracle,
	},
	{
		Name: "a class that has lost its finalizer does not get it back",
		Edits: []Edit{{classFolder + "controller.go", "classes.Watch(protection.Enqueues, ",
			"classes.Watch(func(before, after plan.Object) []plan.Key {\n" +
				"\t\t\t\tif after != nil && after.GetDeletionTimestamp() == nil {\n\t\t\t\t\treturn nil\n\t\t\t\t}\n\t\t\t\treturn protection.Enqueues(before, after)\n\t\t\t}, "}},
		Script: withoutElection + "\n\t\t\tat 5s   attributes gold\n\t\t\tat 30s  attributes gold do=strip",
		Oracle: SettledOracle,
	},
}
