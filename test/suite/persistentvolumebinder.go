package suite

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func volumeBinderEntry() Entry {
	return Entry{
		Controller: "persistentvolume-binder-controller",
		Needs:      []string{"persistentvolumeclaim-protection-controller"}, // or no claim goes
		Operations: map[string]Operation{
			// NAME: a class of the driver; by=: of another one; mode=wait; default=true; fails=N or never; policy=Retain; do=delete
			"class": class,
			"vol":   makeVolume,  // NAME size= class= for=CLAIM uid=true policy= label=: a volume; do=delete, free
			"want":  wantVolume,  // NAME size= class= volume= label= done=true: a claim; class=none names none; do=delete, select
			"adopt": adoptVolume, // NAME volume=: the claim is created as a backup has it, with all that says that it was bound
		},
		Choices: []workload.Choice{
			{Weight: 2, Add: randomClaims}, {Weight: 2, Add: randomPairs}, {Weight: 1, Add: randomDriver},
		},
		Settled:   bindingsSettled,
		Scenarios: binderScenarios,
		Malformed: map[string]string{
			"persistentvolumes/absurd-claim": `{"apiVersion":"v1","kind":"PersistentVolume","metadata":${META},"spec":{"capacity":{"storage":"1"},"accessModes":["Sometimes"],"claimRef":{"uid":"x"},"persistentVolumeReclaimPolicy":"Perhaps"},"status":{"phase":"Odd"}}`,
			"persistentvolumeclaims/absurd-volume": `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"","volume.kubernetes.io/storage-provisioner":"kubernetes.io/aws-ebs"},${META}},
				"spec":{"volumeName":"../x","selector":{"matchExpressions":[{"key":"","operator":"Odd"}]},"accessModes":["Never"]},"status":{"phase":"Odd"}}`,
			"storageclasses/absurd": `{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":${META},"provisioner":"","volumeBindingMode":"Odd"}`,
		},
		Mutants: volumeBinderMutants,
		Budgets: []Budget{
			{
				// pvc-protection says of each that it is unused
				Name: "20 claims get the volumes that are reserved for them", Floor: floor.Writes{Status: 60, Other: 40},
				Prepare: func(u *User) {
					u.Each(20, func(i int) error { return create(u, u.reservedVolume(fmt.Sprint("disk-", i), fmt.Sprint("data-", i))) })
					u.volumesAre(20, corev1.VolumeAvailable)
				},
				Do: func(u *User) {
					u.Each(20, func(i int) error { return create(u, u.claimOf(fmt.Sprint("data-", i), ptr.To(u.className("shelf")))) })
					u.claimsAreBound(20)
				},
			},
			{
				// each claim asks, and is then bound
				Name: "20 claims get volumes from a driver", Floor: floor.Writes{Status: 60, Other: 40},
				Prepare: func(u *User) { u.Create(u.newClass("made", handDriver)) },
				Do: func(u *User) {
					u.Each(20, func(i int) error { return create(u, u.claimOf(fmt.Sprint("made-", i), ptr.To(u.className("made")))) })
					u.makeVolumes(20, "made")
					u.claimsAreBound(20)
				},
			},
		},
	}
}

// handDriver is a driver in whose place users make volumes.
const handDriver = "hand.example.com"

const gi = 1 << 30

// randomClaims has claims and volumes of different sizes compete.
func randomClaims(g *workload.Generator, app string, at, soon time.Duration) {
	for i := range 2 + g.IntN(3) {
		g.Add(at+g.Early(), "vol free-%s-%d size=%d class=%s label=%s policy=%s", app, i, 1+g.IntN(3),
			workload.Pick(g, "shelf", "shelf", "rack"), workload.Pick(g, "red", "blue"), workload.Pick(g, "Retain", "Retain", "Delete"))
	}
	for i := range 2 + g.IntN(3) {
		label := workload.Pick(g, "", "", "label=red")
		g.Add(at+g.Early(), "want wants-%s-%d size=%d class=%s %s", app, i, 1+g.IntN(3), workload.Pick(g, "shelf", "shelf", "rack"), label)
	}
	g.Add(soon, "want wants-%s-%d do=delete", app, g.IntN(3))
	g.Add(soon+g.Early(), "vol free-%s-%d do=%s", app, g.IntN(3), workload.Pick(g, "free", "free", "delete"))
	if g.IntN(3) == 0 {
		g.Add(soon+2*g.Early(), "want wants-%s-%d size=1 class=shelf", app, g.IntN(3))
	}
}

// randomPairs has claims and volumes that name each other, or try to.
func randomPairs(g *workload.Generator, app string, at, soon time.Duration) {
	pair := fmt.Sprintf("%s-%d", app, g.IntN(3))
	g.Add(at+g.Early(), "vol mine-%s size=2 class=shelf for=pair-%s policy=%s", pair, pair, workload.Pick(g, "Retain", "Delete", "Recycle"))
	g.Add(at+g.Early(), "%s pair-%s size=%d class=shelf %s", workload.Pick(g, "want", "want", "adopt"), pair, 1+g.IntN(3),
		workload.Pick(g, "", "volume=mine-"+pair))
	g.Add(at+g.Early(), "want rival-%s size=1 class=shelf %s", pair, workload.Pick(g, "", "volume=mine-"+pair))
	switch g.IntN(5) {
	case 0: // as a restore of a backup has it
		g.Add(soon, "vol back-%s size=2 class=shelf for=rival-%s uid=true", pair, pair)
		g.Add(soon+g.Early(), "adopt back-%s size=2 class=shelf volume=mine-%s", pair, pair)
	case 4:
		g.Add(soon, "want pair-%s do=delete", pair)
		g.Add(soon+g.Early(), "want pair-%s size=1 class=shelf", pair)
	case 1:
		g.Add(soon, "vol mine-%s do=delete", pair)
		g.Add(soon+g.Early(), "want pair-%s do=delete", pair)
	case 2:
		g.Add(soon, "vol mine-%s do=free", pair)
	default:
		g.Add(soon, "want rival-%s do=delete", pair)
	}
}

// randomDriver has claims ask a driver.
func randomDriver(g *workload.Generator, app string, at, soon time.Duration) {
	name := workload.Pick(g, "quick", "slow", "broken", "late")
	words := map[string]string{"quick": "", "slow": "fails=2", "broken": "fails=never", "late": "mode=wait"}[name]
	g.Add(at, "class %s %s", name, words)
	for i := range 1 + g.IntN(3) {
		g.Add(at+g.Early(), "want made-%s-%d size=1 class=%s", app, i, name)
		if name == "late" && g.IntN(2) == 0 {
			g.Add(soon, "want made-%s-%d do=select", app, i)
		}
	}
	if g.IntN(3) == 0 {
		g.Add(at+g.Early(), "vol ready-%s size=1 class=%s", app, name)
	}
	if g.IntN(3) == 0 {
		g.Add(workload.Pick(g, at, soon)+g.Early(), "class std default=true")
		g.Add(workload.Pick(g, at, soon), "want lazy-%s size=1 class=none", app)
		if g.IntN(2) == 0 {
			g.Add(soon+20*time.Second, "class std do=delete")
		}
	}
	g.Add(soon+g.Early(), "want made-%s-%d do=delete", app, g.IntN(2))
}

// className is the name of a class: each user has their own, or claims would get the volumes of others.
func (u *User) className(name string) string { return u.unique(name) }

func (u *User) newClass(name, driver string) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: u.className(name)}, Provisioner: driver}
	u.mark(c)
	return c
}

func class(u *User, l script.Line) error {
	if do, _ := l.Get("do"); do == "delete" {
		return remove[*storagev1.StorageClass](u, u.className(l.Arg(0)))
	}
	driver, ok := l.Get("by")
	if !ok {
		driver = actors.Driver
	}
	c := u.newClass(l.Arg(0), driver)
	if mode, _ := l.Get("mode"); mode == "wait" {
		c.VolumeBindingMode = ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
	}
	if fails, ok := l.Get("fails"); ok {
		c.Parameters = map[string]string{actors.Fails: fails}
	}
	if policy, ok := l.Get("policy"); ok {
		c.ReclaimPolicy = ptr.To(corev1.PersistentVolumeReclaimPolicy(policy))
	}
	if says(l, "default") && u.Alone { // it is that of the whole cluster
		c.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	}
	return ignoreExists(create(u, c))
}

// volumeOf is a volume of so many Gi, of a class.
func (u *User) volumeOf(name, class string, size int) *corev1.PersistentVolume {
	v := u.newVolume(name)
	v.Spec.StorageClassName = class
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(int64(size)*gi, resource.BinarySI)}
	return v
}

func (u *User) reservedVolume(name, claim string) *corev1.PersistentVolume {
	v := u.volumeOf(name, u.className("shelf"), 1)
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: u.Namespace, Name: claim}
	return v
}

func makeVolume(u *User, l script.Line) error {
	name := u.unique(l.Arg(0))
	switch do, _ := l.Get("do"); do {
	case "delete":
		return remove[*corev1.PersistentVolume](u, name)
	case "free": // an administrator frees what was Released
		return edit(u, name, func(v *corev1.PersistentVolume) {
			if v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed {
				v.Spec.ClaimRef = nil
			}
		})
	}
	size, _ := l.Int("size")
	v := u.volumeOf(l.Arg(0), "", max(size, 1))
	if class, _ := l.Get("class"); class != "" {
		v.Spec.StorageClassName = u.className(class)
	}
	if policy, ok := l.Get("policy"); ok {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimPolicy(policy)
	}
	if label, ok := l.Get("label"); ok {
		v.Labels = labelled(v.Labels, label)
	}
	if claim, ok := l.Get("for"); ok {
		v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: u.Namespace, Name: claim}
		if says(l, "uid") {
			c, err := get[*corev1.PersistentVolumeClaim](u, claim)
			if err != nil {
				return err
			}
			v.Spec.ClaimRef.UID = c.UID
		}
	}
	return create(u, v)
}

func labelled(all map[string]string, color string) map[string]string {
	after := map[string]string{"color": color}
	for key, value := range all {
		after[key] = value
	}
	return after
}

// claimOf is a claim of a class; nil for none.
func (u *User) claimOf(name string, class *string) *corev1.PersistentVolumeClaim {
	c := newClaim(name)
	c.Spec.StorageClassName = class
	return c
}

func wantVolume(u *User, l script.Line) error {
	switch do, _ := l.Get("do"); do {
	case "delete":
		return remove[*corev1.PersistentVolumeClaim](u, l.Arg(0))
	case "select": // which the scheduler does
		return edit(u.as("scheduler"), l.Arg(0), func(c *corev1.PersistentVolumeClaim) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, "volume.kubernetes.io/selected-node", "node-0")
		})
	}
	return create(u, u.wanted(l))
}

// wanted is the claim of a line.
func (u *User) wanted(l script.Line) *corev1.PersistentVolumeClaim {
	class, _ := l.Get("class")
	c := u.claimOf(l.Arg(0), ptr.To(""))
	switch class {
	case "none":
		c.Spec.StorageClassName = nil
	case "":
	default:
		c.Spec.StorageClassName = ptr.To(u.className(class))
	}
	if size, ok := l.Int("size"); ok {
		c.Spec.Resources.Requests[corev1.ResourceStorage] = *resource.NewQuantity(int64(size)*gi, resource.BinarySI)
	}
	if volume, ok := l.Get("volume"); ok {
		c.Spec.VolumeName = u.unique(volume)
	}
	if label, ok := l.Get("label"); ok {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"color": label}}
	}
	return c
}

func adoptVolume(u *User, l script.Line) error {
	c := u.wanted(l)
	c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
	return create(u, c)
}

// volumesAre waits until so many volumes of the user are in a phase.
func (u *User) volumesAre(n int, phase corev1.PersistentVolumePhase) {
	u.Helper()
	u.Wait(fmt.Sprintf("%d volumes are %s", n, phase), Patience, func() error {
		all, err := list[*corev1.PersistentVolume](u)
		if err != nil {
			return err
		}
		var is []string
		for _, v := range all {
			if v.Status.Phase == phase && strings.HasPrefix(v.Spec.StorageClassName, u.className("")) {
				is = append(is, v.Name)
			}
		}
		return unless(len(is) == n, is)
	})
}

func (u *User) claimsAreBound(n int) {
	u.Helper()
	AwaitAll(u, n, func(c *corev1.PersistentVolumeClaim) error {
		unused := slices.ContainsFunc(c.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
			return c.Type == corev1.PersistentVolumeClaimUnused
		})
		return unless(c.Status.Phase == corev1.ClaimBound && unused, c.Status)
	})
}

// makeVolumes makes the volumes of so many claims that ask for the driver in whose place users make them.
func (u *User) makeVolumes(n int, class string) {
	u.Helper()
	made := map[string]bool{}
	u.Wait(fmt.Sprintf("%d claims have asked for volumes", n), Patience, func() error {
		claims, err := list[*corev1.PersistentVolumeClaim](u)
		if err != nil {
			return err
		}
		for _, c := range claims {
			if made[c.Name] || c.Annotations["volume.kubernetes.io/storage-provisioner"] != handDriver {
				continue
			}
			v := actors.VolumeOf(c, u.newClass(class, handDriver), handDriver)
			v.Finalizers = nil
			u.mark(v)
			if err := ignoreExists(create(u, v)); err != nil {
				return err
			}
			made[c.Name] = true
		}
		return unless(len(made) == n, made)
	})
}

var binderScenarios = []Scenario{
	{Name: "claims and volumes are bound, released and freed", Play: func(u *User) {
		class := ptr.To(u.className("shelf"))
		for i := range 3 {
			u.Create(u.volumeOf(fmt.Sprint("free-", i), *class, 1+i))
		}
		u.volumesAre(3, corev1.VolumeAvailable)
		u.Create(u.reservedVolume("mine", "pair"))
		u.Create(u.claimOf("pair", class))
		named := u.claimOf("named", class)
		named.Spec.VolumeName = u.unique("free-1")
		u.Create(named)
		u.claimsAreBound(2) // "any" may take the volume otherwise
		u.Create(u.claimOf("any", class))
		u.claimsAreBound(3)
		Remove[*corev1.PersistentVolumeClaim](u, "named")
		AwaitGone[*corev1.PersistentVolumeClaim](u, "named")
		Await(u, u.unique("free-1"), func(v *corev1.PersistentVolume) error {
			return unless(v.Status.Phase == corev1.VolumeReleased, v.Status)
		})
		Patch[*corev1.PersistentVolume](u, u.unique("free-1"), `{"spec":{"claimRef":null}}`)
		Await(u, u.unique("free-1"), func(v *corev1.PersistentVolume) error {
			return unless(v.Status.Phase == corev1.VolumeAvailable, v.Status)
		})
		u.removeVolumes("free-0", "free-1", "free-2", "mine")
	}},
	{Name: "a driver makes the volumes of claims", Play: func(u *User) {
		u.Create(u.newClass("made", handDriver))
		u.Cleanup(func() { Remove[*storagev1.StorageClass](u, u.className("made")) })
		for i := range 3 {
			u.Create(u.claimOf(fmt.Sprint("made-", i), ptr.To(u.className("made"))))
		}
		u.makeVolumes(3, "made")
		u.claimsAreBound(3)
		Remove[*corev1.PersistentVolumeClaim](u, "")
		AwaitAll[*corev1.PersistentVolumeClaim](u, 0, nil)
		u.volumesAre(3, corev1.VolumeReleased)
		u.Try("the driver deletes the volumes", func() error {
			all, err := list[*corev1.PersistentVolume](u)
			for _, v := range all {
				if v.Spec.StorageClassName == u.className("made") {
					err = errors.Join(err, ignoreNotFound(remove[*corev1.PersistentVolume](u, v.Name)))
				}
			}
			return err
		})
		u.volumesAre(0, corev1.VolumeReleased)
	}},
}

// removeVolumes takes the volumes of a scenario away when its test ends.
func (u *User) removeVolumes(names ...string) {
	u.Cleanup(func() {
		for _, name := range names {
			Remove[*corev1.PersistentVolume](u, u.unique(name))
		}
	})
}

// bindingsSettled checks what S32 to S35 do not: that a claim has a volume that it may have, if the manager has chosen it, and that
// claims which wait for a pod have none.
func bindingsSettled(v *View) (wrong []string) {
	volumes := map[string]*corev1.PersistentVolume{}
	for _, o := range subjects[*corev1.PersistentVolume](v) {
		volumes[o.Name] = o
	}
	waiting := map[string]bool{}
	for _, o := range all[*storagev1.StorageClass](v) {
		waiting[o.Name] = ptr.Deref(o.VolumeBindingMode, "") == storagev1.VolumeBindingWaitForFirstConsumer
	}
	for _, c := range subjects[*corev1.PersistentVolumeClaim](v) {
		volume := volumes[c.Spec.VolumeName]
		if c.Status.Phase != corev1.ClaimBound || volume == nil {
			continue
		}
		const chosen = "pv.kubernetes.io/bound-by-controller"
		switch ref := volume.Spec.ClaimRef; {
		case ref == nil || ref.UID != c.UID:
			wrong = append(wrong, fmt.Sprintf("the claim %s is bound to %s, which is for %+v", c.Name, volume.Name, ref))
			continue
		case volume.Status.Phase != corev1.VolumeBound:
			wrong = append(wrong, fmt.Sprintf("the claim %s is bound to %s, which is %s", c.Name, volume.Name, volume.Status.Phase))
		}
		if c.Annotations[chosen] == "" || volume.Annotations[chosen] == "" || c.Annotations["controller-manager/restored"] != "" {
			continue // its user has chosen
		}
		wrong = append(wrong, misfit(c, volume, waiting)...)
	}
	return append(wrong, needlessVolumeWrites(v)...)
}

// misfit says why a manager should not have chosen a volume for a claim.
func misfit(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume, waiting map[string]bool) (wrong []string) {
	has, wants := v.Spec.Capacity[corev1.ResourceStorage], c.Spec.Resources.Requests[corev1.ResourceStorage]
	class := ptr.Deref(c.Spec.StorageClassName, "")
	switch selector, _ := metav1.LabelSelectorAsSelector(c.Spec.Selector); {
	case has.Cmp(wants) < 0:
		wrong = append(wrong, fmt.Sprintf("the claim %s of %s has the volume %s of %s", c.Name, wants.String(), v.Name, has.String()))
	case v.Spec.StorageClassName != class:
		wrong = append(wrong,
			fmt.Sprintf("the claim %s of the class %q has a volume of the class %q", c.Name, class, v.Spec.StorageClassName))
	case c.Spec.Selector != nil && !selector.Matches(labels.Set(v.Labels)):
		wrong = append(wrong, fmt.Sprintf("the claim %s has the volume %s, whose labels it does not select", c.Name, v.Name))
	case waiting[class] && c.Annotations["volume.kubernetes.io/selected-node"] == "":
		wrong = append(wrong, fmt.Sprintf("the claim %s has a volume before a pod is scheduled that uses it", c.Name))
	}
	return wrong
}

// needlessVolumeWrites are those by which a volume of policy Retain would be used again by itself (PV-51).
func needlessVolumeWrites(v *View) (wrong []string) {
	for _, e := range v.writes("persistentvolumes") {
		after := e.Object.(*corev1.PersistentVolume)
		before, ok := e.Before.(*corev1.PersistentVolume)
		if ok && !e.Deleted && before.Status.Phase == corev1.VolumeReleased && before.Spec.ClaimRef != nil &&
			before.Spec.ClaimRef.UID != "" && // else somebody has reserved it anew
			(after.Spec.ClaimRef == nil || after.Status.Phase == corev1.VolumeAvailable) {
			wrong = append(wrong, fmt.Sprintf("the manager has freed the volume %s, which was Released", after.Name))
		}
	}
	return wrong
}

const (
	binderPlan      = "pkg/controllers/persistentvolumebinder/plan.go"
	binderBind      = "pkg/controllers/persistentvolumebinder/plan_bind.go"
	binderMatch     = "pkg/controllers/persistentvolumebinder/plan_match.go"
	binderVolume    = "pkg/controllers/persistentvolumebinder/plan_volume.go"
	binderProvision = "pkg/controllers/persistentvolumebinder/plan_provision.go"
	binderObserve   = "pkg/controllers/persistentvolumebinder/observe.go"
	binderChanges   = "pkg/controllers/persistentvolumebinder/observe_changes.go"
)

var volumeBinderMutants = []Mutant{
	{
		Name: "no live read before Released",
		Edits: []Edit{{binderVolume, "case !s.Read:", "case s.Volume == nil:"},
			{binderObserve, "orphaned := ref.UID != \"\" &&", "orphaned := ref.UID == \"\" &&"}},
		Script: withoutElection + `
			at 5s   vol other class=rack
			at 9s   fault m0 freeze persistentvolumeclaims for=60s
			at 10s  want data size=1 class=shelf
			at 20s  vol disk size=1 class=shelf for=data uid=true`,
		Oracle: "S33",
	},
	{
		Name: "a claim gets a volume that is for another one",
		Edits: []Edit{{binderPlan, "case names(v, c):\n\t\treturn bind(s, v, \"the two name each other\")",
			"case names(v, c) || v.Spec.ClaimRef != nil:\n\t\treturn bind(s, v, \"the two name each other\")"}},
		Script: withoutElection +
			"\n\t\t\tat 5s   vol disk size=1 class=shelf for=data\n\t\t\tat 10s  want data size=1 class=shelf\n\t\t\tat 30s  want rival " +
			"size=1 class=shelf volume=disk",
		Oracle: "S32",
	},
	{
		Name:   "a claim is bound to a volume that was not reserved",
		Edits:  []Edit{{binderBind, "reserved := reserve(v, c)", "reserved := tidied(v)"}},
		Script: withoutElection + "\n\t\t\tat 5s   vol disk size=1 class=shelf\n\t\t\tat 30s  want data size=1 class=shelf",
		Oracle: "S32",
	},
	{
		Name:  "a claim is Lost on the word of the cache",
		Edits: []Edit{{binderPlan, "case s.Proved, c.Spec.VolumeName == \"\",", "case c != nil,"}},
		Script: withoutElection + `
			at 5s   vol other class=rack
			at 6s   fault m0 freeze persistentvolumes for=120s
			at 10s  vol disk size=1 class=shelf for=data
			at 60s  adopt data size=1 class=shelf volume=disk
			at 61s  vol late size=1 class=rack`,
		Oracle: "S34",
	},
	{
		Name: "the end of a claim is not noticed",
		Edits: []Edit{{binderChanges, "for _, c := range []*corev1.PersistentVolumeClaim{is, was} {\n\t\tif c == nil {",
			"for _, c := range []*corev1.PersistentVolumeClaim{is, was} {\n\t\tif c == nil || is == nil {"}},
		Script: withoutElection +
			"\n\t\t\tat 5s   vol disk size=1 class=shelf\n\t\t\tat 10s  want data size=1 class=shelf\n\t\t\tat 30s  want data do=delete",
		Oracle: "S35",
	},
	{
		Name:   "a claim does not notice that a volume is free",
		Edits:  []Edit{{binderChanges, "if is != nil && free(is) &&", "if is != nil && !free(is) &&"}},
		Script: withoutElection + "\n\t\t\tat 5s   want data size=1 class=shelf\n\t\t\tat 10s  vol disk size=1 class=shelf",
		Oracle: "S35",
	},
	{
		Name: "a claim does not notice the default class",
		Edits: []Edit{{binderChanges, "if values = append(values, class.Name); isDefault(class) {",
			"if values = append(values, class.Name); !isDefault(class) {"}},
		Script: withoutElection + "\n\t\t\tat 5s   want data size=1 class=none\n\t\t\tat 10s  class std default=true",
		Oracle: "S35",
	},
	{
		Name:  "selectors are not asked",
		Edits: []Edit{{binderMatch, "if c.Spec.Selector == nil {\n\t\treturn w", "if c.Name != \"\" {\n\t\treturn w"}},
		Script: withoutElection +
			"\n\t\t\tat 5s   vol disk size=1 class=shelf label=blue\n\t\t\tat 10s  want data size=1 class=shelf label=red",
		Oracle: SettledOracle,
	},
	{
		Name:   "the driver is asked in the old way alone",
		Edits:  []Edit{{binderProvision, "annotate(c, provisioner, driver)", "annotate(c, betaProvisioner, driver)"}},
		Script: withoutElection + "\n\t\t\tat 5s   class quick\n\t\t\tat 10s  want data size=1 class=quick",
		Oracle: "S35",
	},
	{
		Name: "claims are bound before a pod is scheduled",
		Edits: []Edit{{binderPlan, "return class != nil && class.VolumeBindingMode != nil &&",
			"return class != nil && class.VolumeBindingMode == nil &&"}},
		Script: withoutElection +
			"\n\t\t\tat 5s   class late mode=wait\n\t\t\tat 6s   vol disk size=1 class=late\n\t\t\tat 10s  want data size=1 class=late",
		Oracle: SettledOracle,
	},
	{
		Name: "what was begun is not finished",
		Edits: []Edit{{binderPlan, "case v.Spec.ClaimRef == nil || names(v, c):",
			"case (v.Spec.ClaimRef == nil || names(v, c)) && c.Status.Phase != corev1.ClaimBound:\n\t\treturn wait(s, \"\", " +
				"event{})\n\tcase v.Spec.ClaimRef == nil || names(v, c):"}},
		Script: withoutElection + `
			at 5s   vol disk size=1 class=shelf
			at 9s   fault m0 refuse code=500 resource=persistentvolumeclaims/status for=5s
			at 10s  want data size=1 class=shelf`,
		Oracle: "S35",
	},
	{
		Name: "a volume that was Released is used again",
		Edits: []Edit{{binderVolume,
			"p.Why = \"it is Released, and stays so until its claimRef is removed, because its policy is Retain\"",
			"after.Spec.ClaimRef = nil\n\t\tp.Steps = change(nil, v, after, \"\", \"\")"}},
		Script: withoutElection +
			"\n\t\t\tat 5s   vol disk size=1 class=shelf\n\t\t\tat 10s  want data size=1 class=shelf\n\t\t\tat 30s  want data do=delete",
		Oracle: SettledOracle,
	},
}
