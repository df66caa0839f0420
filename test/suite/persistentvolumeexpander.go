package suite

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// resizerAnnotation hands a claim to the resizer of a driver.
const resizerAnnotation = "volume.kubernetes.io/storage-resizer"

func volumeExpanderEntry() Entry {
	return Entry{
		Controller: "persistentvolume-expander-controller",
		Operations: map[string]Operation{
			"elastic": elastic,        // NAME plugin=ebs, csi: a claim and its volume, of 1Gi, bound to each other; do=delete
			"grow":    grow,           // NAME size=: the claim asks for so many Gi
			"resized": actAsResizer,   // NAME size=: the claim has so many Gi
			"unbind":  unbindElastic,  // NAME: its volume belongs to another claim; do=rebind
			"lose":    loseElasticPV,  // NAME: its volume is gone
			"restore": restoreElastic, // NAME plugin=: it is there again
		},
		Choices: []workload.Choice{{Weight: 1, Add: func(g *workload.Generator, app string, at, soon time.Duration) {
			name := fmt.Sprintf("elastic-%s-%d", app, g.IntN(2))
			g.Add(at, "elastic %s plugin=%s", name, workload.Pick(g, "ebs", "ebs", "csi"))
			g.Add(at+g.Early(), "grow %s size=%d", name, 2+g.IntN(3))
			switch g.IntN(5) {
			case 0:
				g.Add(at+2*g.Early(), "unbind %s", name)
				g.Add(soon, "unbind %s do=rebind", name)
			case 1: // the volume is gone for a while
				g.Add(at+g.Early(), "lose %s", name)
				g.Add(soon+2*g.Early(), "restore %s plugin=ebs", name)
			case 2: // the volume of an earlier claim of the name
				g.Add(at-time.Second, "pvc %s", name)
				g.Add(at-time.Second+time.Millisecond, "restore %s plugin=ebs", name)
				g.Add(at-500*time.Millisecond, "pvc %s do=strip", name)
				g.Add(at-400*time.Millisecond, "pvc %s do=delete", name)
			}
			g.Add(soon+g.Early(), "resized %s size=%d", name, 1+g.IntN(5))
		}}},
		Settled: growthSettled,
		Scenarios: []Scenario{{Name: "claims of an earlier plugin grow", Play: func(u *User) {
			for i := range 3 {
				u.bindElastic(fmt.Sprint("elastic-", i), "ebs")
			}
			for i := range 3 {
				name := fmt.Sprint("elastic-", i)
				u.Try("grow "+name, func() error { return u.setRequest(name, 2) })
			}
			AwaitAll(u, 3, handedOver)
			u.removeElastic(3)
		}}},
		Malformed: map[string]string{
			"persistentvolumeclaims/absurd-sizes": `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":${META},"spec":{"volumeName":"absurd-sources","resources":{"requests":{"storage":"5Gi"}}},
				"status":{"phase":"Bound","capacity":{"storage":"-1"}}}`,
			"persistentvolumes/absurd-sources": `{"apiVersion":"v1","kind":"PersistentVolume","metadata":${META},"spec":{"awsElasticBlockStore":{"volumeID":""},"gcePersistentDisk":{"pdName":"x"},"claimRef":{"name":"../x"}}}`,
		},
		Mutants: volumeExpanderMutants,
		Budgets: []Budget{{
			Name: "20 claims of an earlier plugin grow", Floor: floor.Writes{Status: 20}, // the annotation is written by way of the status
			Prepare: func(u *User) {
				u.Each(20, func(i int) error { u.bindElastic(fmt.Sprint("elastic-", i), "ebs"); return nil })
				AwaitAll(u, 20, func(c *corev1.PersistentVolumeClaim) error {
					return unless(unusedSays(c) == "true", "it does not say that it is unused")
				})
			},
			Do: func(u *User) {
				u.Each(20, func(i int) error { return u.setRequest(fmt.Sprint("elastic-", i), 2) })
				AwaitAll(u, 20, handedOver)
			},
		}},
	}
}

func handedOver(c *corev1.PersistentVolumeClaim) error {
	return unless(c.Annotations[resizerAnnotation] == "ebs.csi.aws.com", c.Annotations)
}

// elasticVolume is a volume that the claim of that name is bound to.
func (u *User) elasticVolume(claim *corev1.PersistentVolumeClaim, plugin string) *corev1.PersistentVolume {
	v := u.newVolume(claim.Name)
	v.Spec.StorageClassName = ptr.Deref(claim.Spec.StorageClassName, "")
	v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: u.Namespace, Name: claim.Name, UID: claim.UID}
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com",
		VolumeHandle: claim.Name}}
	if plugin == "ebs" {
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
			AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}
	}
	return v
}

// elasticClass is a class whose claims may grow: the API server asks for one.
func (u *User) elasticClass() *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: u.unique("elastic")}, Provisioner: "example.com/nobody",
		AllowVolumeExpansion: ptr.To(true)}
	u.mark(c)
	return c
}

// makeElastic makes a claim and its volume, and binds them to each other, which the binder does otherwise.
func (u *User) makeElastic(name, plugin string) error {
	class := u.elasticClass()
	claim := newClaim(name)
	claim.Spec.VolumeName, claim.Spec.StorageClassName = u.unique(name), &class.Name
	if err := ignoreExists(create(u, class)); err != nil {
		return err
	}
	if err := ignoreExists(create(u, claim)); err != nil {
		return err
	}
	made, err := get[*corev1.PersistentVolumeClaim](u, name)
	if err != nil {
		return err
	}
	if err := ignoreExists(create(u, u.elasticVolume(made, plugin))); err != nil {
		return err
	}
	if err := edit(u, u.unique(name), func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound }, "status"); err != nil {
		return err
	}
	return edit(u, name, func(c *corev1.PersistentVolumeClaim) {
		c.Status.Phase, c.Status.Capacity, c.Status.AccessModes = corev1.ClaimBound, gibibytes(1), c.Spec.AccessModes
	}, "status")
}

func (u *User) bindElastic(name, plugin string) {
	u.Helper()
	u.Try("bind "+name+" to its volume", func() error { return u.makeElastic(name, plugin) })
}

// removeElastic deletes all claims of the namespace, and the volumes of so many, which no binder lets go.
func (u *User) removeElastic(n int) {
	u.Helper()
	Remove[*corev1.PersistentVolumeClaim](u, "")
	for i := range n {
		name := fmt.Sprint("elastic-", i)
		u.deleteVolume(name)
		u.volumePhase(name, corev1.VolumeReleased)
		AwaitGone[*corev1.PersistentVolume](u, u.unique(name))
	}
	Remove[*storagev1.StorageClass](u, u.unique("elastic"))
}

func gibibytes(n int) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(int64(n)<<30, resource.BinarySI)}
}

func (u *User) setRequest(name string, size int) error {
	return edit(u, name, func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = gibibytes(size) })
}

func elastic(u *User, l script.Line) error {
	if do, _ := l.Get("do"); do == "delete" {
		return remove[*corev1.PersistentVolumeClaim](u, l.Arg(0))
	}
	plugin, _ := l.Get("plugin")
	return u.makeElastic(l.Arg(0), plugin)
}

func grow(u *User, l script.Line) error {
	size, _ := l.Int("size")
	return u.setRequest(l.Arg(0), size)
}

// actAsResizer sets the size that a claim has, which the resizer of its driver does otherwise.
func actAsResizer(u *User, l script.Line) error {
	size, _ := l.Int("size")
	return edit(u, l.Arg(0), func(c *corev1.PersistentVolumeClaim) { c.Status.Capacity = gibibytes(size) }, "status")
}

// unbindElastic gives the volume of a claim to another claim, or back.
func unbindElastic(u *User, l script.Line) error {
	do, _ := l.Get("do")
	claim, err := get[*corev1.PersistentVolumeClaim](u, l.Arg(0))
	if err != nil {
		return err
	}
	return edit(u, u.unique(l.Arg(0)), func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = v.Spec.ClaimRef.DeepCopy()
		if v.Spec.ClaimRef.UID = "another"; do == "rebind" {
			v.Spec.ClaimRef.UID = claim.UID
		}
	})
}

func loseElasticPV(u *User, l script.Line) error {
	if err := edit(u, u.unique(l.Arg(0)), func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeReleased },
		"status"); err != nil {
		return err
	}
	return remove[*corev1.PersistentVolume](u, u.unique(l.Arg(0)))
}

func restoreElastic(u *User, l script.Line) error {
	claim, err := get[*corev1.PersistentVolumeClaim](u, l.Arg(0))
	if err != nil {
		return err
	}
	plugin, _ := l.Get("plugin")
	return create(u, u.elasticVolume(claim, plugin))
}

// growthSettled says which claims that grow are not handed to the resizer of the driver that took over the plugin of their volume, and
// which are handed to one that is not theirs.
func growthSettled(s *View) (wrong []string) {
	for _, c := range subjects[*corev1.PersistentVolumeClaim](s) {
		got := c.Annotations[resizerAnnotation]
		v := one[*corev1.PersistentVolume](s, "", c.Spec.VolumeName)
		request, capacity := c.Spec.Resources.Requests[corev1.ResourceStorage], c.Status.Capacity[corev1.ResourceStorage]
		if v == nil || v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != c.UID || c.Status.Phase != corev1.ClaimBound ||
			request.Cmp(capacity) <= 0 {
			continue
		}
		want := ""
		if v.Spec.AWSElasticBlockStore != nil {
			want = "ebs.csi.aws.com"
		}
		if got != want { // ST-4, ST-5
			wrong = append(wrong, fmt.Sprintf("the claim %s is handed to %q, and not to %q", c.Name, got, want))
		}
	}
	for _, e := range s.writes("persistentvolumeclaims") {
		c, ok := e.Object.(*corev1.PersistentVolumeClaim)
		if !ok || e.Before == nil || e.Before.GetAnnotations()[resizerAnnotation] == c.Annotations[resizerAnnotation] {
			continue
		}
		if !heldTheClaim(s, c, e.Version) { // ST-2
			wrong = append(wrong, fmt.Sprintf("the claim %s was handed over although its volume was never its own", c.Name))
		}
	}
	return wrong
}

// heldTheClaim reports whether, at any time before a version, a volume was that of a claim.
func heldTheClaim(s *View, c *corev1.PersistentVolumeClaim, version uint64) bool {
	for _, e := range s.Changes("persistentvolumes") {
		v := e.Object.(*corev1.PersistentVolume)
		if e.Version < version && v.Name == c.Spec.VolumeName && v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID == c.UID {
			return true
		}
	}
	return false
}

const expanderFolder = "pkg/controllers/persistentvolumeexpander/"

const elasticClaim = withoutElection + `
			at 5s   elastic data plugin=ebs`

// expanderAlone leaves the binder out: what it writes to a claim would lead the expander to it.
const expanderAlone = `
			set only persistentvolume-expander-controller,persistentvolume-protection-controller`

var volumeExpanderMutants = []Mutant{
	{
		Name:   "the plugin is named in the place of the driver that took it over",
		Edits:  []Edit{{expanderFolder + "plan.go", "after.Annotations[resizer] = driver", "after.Annotations[resizer] = reason + driver"}},
		Script: elasticClaim + "\n\t\t\tat 20s  grow data size=2",
		Oracle: SettledOracle,
	},
	{
		Name: "a claim that comes to grow is not noticed",
		Edits: []Edit{{expanderFolder + "observe.go", "if was != nil && growing(was) || is != nil && growing(is) {",
			"if was != nil && growing(was) || is != nil && was == nil && growing(is) {"}},
		Script: elasticClaim + "\n\t\t\tat 20s  grow data size=2",
		Oracle: SettledOracle,
	},
	{
		Name: "a volume that comes later is not noticed",
		Edits: []Edit{{expanderFolder + "observe.go", "if is == nil || is.Spec.ClaimRef == nil {",
			"if is == nil || is.Spec.ClaimRef == nil || was == nil {"}},
		Script: expanderAlone + elasticClaim +
			"\n\t\t\tat 20s  lose data\n\t\t\tat 30s  grow data size=2\n\t\t\tat 60s  restore data plugin=ebs",
		Oracle: SettledOracle,
	},
	{
		Name: "the volume of another claim counts",
		Edits: []Edit{{expanderFolder + "plan.go", "ref.Namespace == c.Namespace && ref.UID == c.UID",
			"ref.Namespace == c.Namespace && ref.Name == c.Name"}},
		Script: expanderAlone + withoutElection +
			"\n\t\t\tat 5s   pvc data\n\t\t\tat 6s   restore data plugin=ebs\n\t\t\tat 7s   pvc data do=strip\n\t\t\tat 8s   pvc data " +
			"do=delete\n\t\t\tat 20s  elastic data plugin=ebs\n\t\t\tat 30s  grow data size=2",
		Oracle: SettledOracle,
	},
	{
		Name: "claims of all volumes are handed over",
		Edits: []Edit{{expanderFolder + "plan.go", "plugin, driver := volumes.MigratedPlugin(s.Volume)",
			"plugin, driver := volumes.MigratedPlugin(s.Volume)\n\tif s.Volume.Spec.CSI != nil {\n\t\tdriver = " +
				"s.Volume.Spec.CSI.Driver\n\t}"}},
		Script: withoutElection + "\n\t\t\tat 5s   elastic data plugin=csi\n\t\t\tat 20s  grow data size=2",
		Oracle: SettledOracle,
	},
}
