package suite

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

func attachDetachEntry() Entry {
	return Entry{
		Controller: "persistentvolume-attach-detach-controller",
		Needs:      []string{"node-lifecycle-controller"}, // which says that nodes are not ready
		Operations: map[string]Operation{
			// NAME: a volume of a CSI driver, and a claim that is bound to it; many=true: many nodes may have it; bound=false: nobody has
			// said so yet; do=delete
			"disk": disk,
			// NAME disk= node=: a pod on a node that uses a disk; image=; do=delete, force
			"use": use,
			// do=fail, stop, hang, start: the external-attachers of all drivers; hang: kubelets do not unmount
			"attacher": func(u *User, l script.Line) error { return u.machines().SetAttacher(value(l, "do")) },
		},
		Choices: []workload.Choice{{Weight: 2, Add: randomMove}, {Weight: 1, Add: randomSilence}, {Weight: 1, Add: randomRace}},
		Settled: attachmentsSettled,
		Scenarios: []Scenario{
			{Name: "a volume moves to another node", Play: moveVolume},
			{Name: "a node out of service gives up its volumes", Play: leaveNode},
		},
		Malformed: map[string]string{
			"volumeattachments/absurd":            `{"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttachment","metadata":${META},"spec":{"attacher":"","source":{},"nodeName":""},"status":{"attached":true}}`,
			"volumeattachments/csi-absurd":        `{"apiVersion":"storage.k8s.io/v1","kind":"VolumeAttachment","metadata":${META},"spec":{"attacher":"x","source":{"persistentVolumeName":"../x","inlineVolumeSpec":{"csi":{"driver":"","volumeHandle":""}}},"nodeName":"../x"}}`,
			"persistentvolumes/absurd-attachable": `{"apiVersion":"v1","kind":"PersistentVolume","metadata":${META},"spec":{"csi":{"driver":"","volumeHandle":""},"fc":{},"azureDisk":{},"accessModes":["",""],"claimRef":{"name":"../x"}}}`,
			"minions/absurd-volumes":              `{"apiVersion":"v1","kind":"Node","metadata":{"annotations":{"volumes.kubernetes.io/controller-managed-attach-detach":""},${META}},"status":{"volumesInUse":["","kubernetes.io/csi/","kubernetes.io/csi/^"],"volumesAttached":[{"name":"","devicePath":""},{"name":"kubernetes.io/csi/x","devicePath":""},{"name":"kubernetes.io/csi/x","devicePath":""}]}}`,
			"pods/absurd-inline-volumes":          `{"apiVersion":"v1","kind":"Pod","metadata":${META},"spec":{"nodeName":"nowhere","volumes":[{"name":"a","gcePersistentDisk":{"pdName":""}},{"name":"b","vsphereVolume":{"volumePath":""}},{"name":"c","fc":{}},{"name":"d","iscsi":{"targetPortal":"","iqn":"","lun":-1}}]}}`,
			"csidrivers/absurd-driver":            `{"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","metadata":${META},"spec":{}}`,
		},
		Mutants: attachDetachMutants,
		Budgets: []Budget{{
			Name: "50 volumes are attached to a node", Floor: floor.Writes{Status: 1, Other: 50},
			Prepare: func(u *User) { u.disksOf(50, 750) },
			Do:      func(u *User) { u.useDisks(50, 750) },
		}, {
			Name: "a node of 50 volumes is drained", Floor: floor.Writes{Status: 1, Other: 50},
			Prepare: func(u *User) {
				u.disksOf(50, 751)
				u.useDisks(50, 751)
			},
			Do: func(u *User) {
				u.Each(50, func(i int) error { return ignoreNotFound(remove[*corev1.Pod](u, fmt.Sprint("user-", i), atOnce)) })
				AwaitAll[*storagev1.VolumeAttachment](u, 0, nil)
			},
		}},
	}
}

// aDisk makes one of a few disks, and returns its name.
func aDisk(g *workload.Generator, app string, at time.Duration) string {
	name := fmt.Sprintf("vol-%s-%d", app, g.IntN(3))
	g.Add(at, "disk %s many=%t", name, g.IntN(4) == 0)
	return name
}

// randomMove has a pod with a volume come to another node, before or after the pod on the first node goes. What attaches volumes may fail.
func randomMove(g *workload.Generator, app string, at, soon time.Duration) {
	name := aDisk(g, app, at)
	g.Add(at+g.Early(), "use %s-a disk=%s node=%s image=%s:1", name, name, g.Node(),
		workload.Pick(g, actors.Good, actors.Good, actors.Slow, actors.Done))
	if what := workload.Pick(g, "", "fail", "stop", "hang"); what != "" {
		g.Add(workload.Pick(g, at, soon-time.Second)+g.Early(), "attacher do=%s", what)
		again := workload.Pick(g, g.Early(), g.While())
		if what == "hang" { // at times until the node would be given up, were it not ready
			again = g.While()
		}
		g.Add(soon+again, "attacher do=start")
	}
	g.Add(soon, "use %s-a do=%s", name, workload.Pick(g, "delete", "force"))
	g.Add(workload.Pick(g, soon+g.Early(), soon+g.Early(), at+5*time.Second), "use %s-b disk=%s node=%s image=good:1", name, name, g.Node())
	if g.IntN(3) == 0 {
		g.Add(soon+2*g.Early(), "use %s-b do=delete", name)
	}
}

// randomSilence has a node with a volume say nothing more, at times until it is given up, and its pods be deleted.
func randomSilence(g *workload.Generator, app string, at, soon time.Duration) {
	name, node := aDisk(g, app, at), g.Node()
	g.Add(at+g.Early(), "use %s-a disk=%s node=%s image=good:1", name, name, node)
	g.Add(soon, "node %s do=stop", node)
	deleted := soon + workload.Pick(g, g.Early(), time.Minute)
	g.Add(deleted, "use %s-a do=%s", name, workload.Pick(g, "delete", "force"))
	g.Add(deleted+g.Early(), "use %s-b disk=%s node=%s image=good:1", name, name, g.Node())
	g.Add(deleted+g.While(), "node %s do=%s", node, workload.Pick(g, "start", "start", "taint", "remove"))
}

// randomRace has pods on two nodes wait for a disk that is only made or bound later.
func randomRace(g *workload.Generator, app string, at, soon time.Duration) {
	name := fmt.Sprintf("late-%s-%d", app, g.IntN(2))
	g.Add(at, "use %s-a disk=%s node=%s", name, name, g.Node())
	g.Add(at+workload.Pick(g, 0, g.Early()), "use %s-b disk=%s node=%s", name, name, g.Node())
	if g.IntN(2) == 0 {
		g.Add(soon, "disk %s", name)
		return
	}
	g.Add(soon, "disk %s bound=false", name)
	g.Add(soon+2*time.Second+g.Early(), "disk %s", name)
}

// moveVolume has a pod with a volume come to another node.
func moveVolume(u *User) {
	from, to := u.attachingNode(740), u.attachingNode(741)
	u.diskByHand("moves")
	u.usesDisk("here", "moves", from)
	u.attachByHand("moves", from)
	u.inUse(from, "moves")
	u.usesDisk("there", "moves", to)
	Remove[*corev1.Pod](u, "here", atOnce)
	u.inUse(from)
	u.detachByHand("moves", from)
	u.attachByHand("moves", to)
	Remove[*corev1.Pod](u, "there", atOnce)
	u.detachByHand("moves", to)
	u.removeDisk("moves")
}

// leaveNode has the volume of a node move that is down, and says that it uses the volume.
func leaveNode(u *User) {
	from, to := u.attachingNode(742), u.attachingNode(743)
	u.diskByHand("leaves")
	u.usesDisk("dead", "leaves", from)
	u.attachByHand("leaves", from)
	u.inUse(from, "leaves")
	u.usesDisk("alive", "leaves", to)
	u.Try("say that the node is out of service", func() error {
		return edit(u.as("admin"), from, func(n *corev1.Node) {
			n.Spec.Taints = append(slices.Clone(n.Spec.Taints),
				corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoSchedule})
		})
	})
	Remove[*corev1.Pod](u, "dead", atOnce)
	u.detachByHand("leaves", from)
	u.attachByHand("leaves", to)
	Remove[*corev1.Pod](u, "alive", atOnce)
	u.detachByHand("leaves", to)
	u.removeDisk("leaves")
}

// value is what a line says of a key.
func value(l script.Line, key string) string {
	text, _ := l.Get(key)
	return text
}

const (
	attaching    = "volumes.kubernetes.io/controller-managed-attach-detach"
	diskDriver   = "disk.example.com"
	driverByHand = "by-hand.example.com" // whose part users play
)

// newDisk is a volume of a CSI driver.
func (u *User) newDisk(name, driver string, modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolume {
	v := u.newVolume(name)
	v.Spec.AccessModes = modes
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver,
		VolumeHandle: u.unique(name)}}
	return v
}

// prebind creates a volume, and a claim that is meant for it. It may be called again.
func (u *User) prebind(v *corev1.PersistentVolume, claim string) error {
	c := newClaim(claim)
	c.Spec.AccessModes, c.Spec.VolumeName, c.Spec.StorageClassName = v.Spec.AccessModes, v.Name, ptr.To("")
	if err := ignoreExists(create(u, c)); err != nil {
		return err
	}
	c, err := get[*corev1.PersistentVolumeClaim](u, claim)
	if err != nil {
		return err
	}
	v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: u.Namespace, Name: claim,
		UID: c.UID}
	return ignoreExists(create(u, v))
}

// bindByHand creates a volume and a claim, and binds them to each other, which is the part of the binder. It may be called again.
func (u *User) bindByHand(v *corev1.PersistentVolume, claim string) error {
	return errors.Join(
		u.prebind(v, claim),
		edit(u, v.Name, func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound }, "status"),
		edit(u, claim, func(c *corev1.PersistentVolumeClaim) {
			c.Status.Phase, c.Status.AccessModes = corev1.ClaimBound, v.Spec.AccessModes
			c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		}, "status"),
	)
}

func disk(u *User, l script.Line) error {
	name := l.Arg(0)
	if value(l, "do") == "delete" {
		return errors.Join(remove[*corev1.PersistentVolumeClaim](u, name),
			edit(u, u.unique(name), func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeReleased }, "status"),
			remove[*corev1.PersistentVolume](u, u.unique(name)))
	}
	mode := corev1.ReadWriteOnce
	if says(l, "many") {
		mode = corev1.ReadWriteMany
	}
	if value(l, "bound") == "false" {
		return u.prebind(u.newDisk(name, diskDriver, mode), name)
	}
	return u.bindByHand(u.newDisk(name, diskDriver, mode), name)
}

// newDiskUser is a pod on a node that uses a disk. It stays whatever taints the node has.
func newDiskUser(name, disk, node, image string) *corev1.Pod {
	p := usesClaim(newPod(name, "user", image), disk)
	p.Spec.NodeName, p.Spec.SchedulerName = node, "nobody"
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	return p
}

func use(u *User, l script.Line) error {
	switch value(l, "do") {
	case "delete":
		return remove[*corev1.Pod](u, l.Arg(0))
	case "force":
		return remove[*corev1.Pod](u, l.Arg(0), atOnce)
	}
	return create(u, newDiskUser(l.Arg(0), value(l, "disk"), u.unique(value(l, "node")), cmp.Or(value(l, "image"), "good:1")))
}

// attachingNode creates a node of nobody, whose kubelet would leave it to the controller to attach volumes.
func (u *User) attachingNode(i int) string {
	u.Helper()
	name := u.nodeOfNobody(i)
	u.Try("let the controller attach", func() error {
		return edit(u.as("admin"), name, func(n *corev1.Node) { n.Annotations = map[string]string{attaching: "true"} })
	})
	return name
}

func (u *User) diskByHand(name string) {
	u.Helper()
	v := u.newDisk(name, driverByHand, corev1.ReadWriteOnce)
	u.Try("make the disk "+name, func() error { return u.bindByHand(v.DeepCopy(), name) })
}

func (u *User) removeDisk(name string) {
	u.Helper()
	Remove[*corev1.PersistentVolumeClaim](u, name)
	AwaitGone[*corev1.PersistentVolumeClaim](u, name)
	u.volumePhase(name, corev1.VolumeReleased)
	u.deleteVolume(name)
	AwaitGone[*corev1.PersistentVolume](u, u.unique(name))
}

func (u *User) usesDisk(pod, disk, node string) {
	u.Helper()
	u.Create(newDiskUser(pod, disk, node, "good:1"))
}

// attachmentTo returns the VolumeAttachment of a disk and a node, nil if there is none.
func (u *User) attachmentTo(disk, node string) (*storagev1.VolumeAttachment, error) {
	all, err := list[*storagev1.VolumeAttachment](u)
	for _, a := range all {
		if a.Spec.NodeName == node && a.Spec.Source.PersistentVolumeName != nil && *a.Spec.Source.PersistentVolumeName == u.unique(disk) {
			return a, nil
		}
	}
	return nil, err
}

// attachByHand plays the external-attacher: it waits until it is asked to attach a disk, does so, and waits until the node is told.
func (u *User) attachByHand(disk, node string) {
	u.Helper()
	driver := u.as("external-attacher")
	u.Wait("the disk is attached to "+node, Patience, func() error {
		a, err := u.attachmentTo(disk, node)
		if err != nil || a == nil {
			return cmp.Or(err, errors.New("there is no VolumeAttachment"))
		}
		return errors.Join(
			edit(driver, a.Name, func(a *storagev1.VolumeAttachment) {
				u.mark(a) // from now on the manager of the user sees it, and no other one does
				if a.DeletionTimestamp == nil {
					a.Finalizers = []string{"external-attacher/" + driverByHand}
				}
			}),
			edit(driver, a.Name, func(a *storagev1.VolumeAttachment) { a.Status.Attached = true }, "status"),
		)
	})
	Await(u, node, func(n *corev1.Node) error { return unless(u.lists(n, disk), n.Status.VolumesAttached) })
}

// detachByHand waits until it is asked to detach a disk, and does so. The node must not list it by then.
func (u *User) detachByHand(disk, node string) {
	u.Helper()
	u.Wait("the disk is detached from "+node, Patience, func() error {
		a, err := u.attachmentTo(disk, node)
		switch {
		case err != nil || a == nil:
			return err
		case a.DeletionTimestamp == nil:
			return errors.New("nobody asks for it")
		}
		return errors.Join(ignoreNotFound(edit(u.as("external-attacher"), a.Name,
			func(a *storagev1.VolumeAttachment) { a.Finalizers = nil })), errors.New("it is being detached"))
	})
	Await(u, node, func(n *corev1.Node) error { return unless(!u.lists(n, disk), n.Status.VolumesAttached) })
}

// nameOnNode is what a disk is called in the status of a node.
func nameOnNode(v *corev1.PersistentVolume) corev1.UniqueVolumeName {
	if v == nil || v.Spec.CSI == nil {
		return ""
	}
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + v.Spec.CSI.Driver + "^" + v.Spec.CSI.VolumeHandle)
}

func (u *User) lists(n *corev1.Node, disk string) bool {
	name := nameOnNode(u.newDisk(disk, driverByHand))
	return slices.ContainsFunc(n.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == name })
}

// inUse plays the kubelet that says which disks it uses.
func (u *User) inUse(node string, disks ...string) {
	u.Helper()
	u.Try("say which disks are in use", func() error {
		return edit(u.as("kubelet"), node, func(n *corev1.Node) {
			n.Status.VolumesInUse = nil
			for _, disk := range disks {
				n.Status.VolumesInUse = append(n.Status.VolumesInUse, nameOnNode(u.newDisk(disk, driverByHand)))
			}
		}, "status")
	})
}

// disksOf makes disks, and a node for the pods that use them. Another pod, on no node, names all of the claims, so that they do not
// count as unused.
func (u *User) disksOf(n, node int) {
	u.Helper()
	one := u.newNode(node)
	one.Annotations[attaching] = "true"
	u.Create(one)
	holder := newPod("holder", "holder", "good:1")
	holder.Spec.SchedulerName = "nobody"
	u.Each(n, func(i int) error {
		name := fmt.Sprint("disk-", i)
		return u.bindByHand(u.newDisk(name, diskDriver, corev1.ReadWriteOnce), name)
	})
	for i := range n {
		usesClaim(holder, fmt.Sprint("disk-", i))
		holder.Spec.Volumes[i].Name = fmt.Sprint("data-", i)
	}
	u.Create(holder)
}

// useDisks makes the pods, and waits until the node lists the disks.
func (u *User) useDisks(n, node int) {
	u.Helper()
	u.Each(n, func(i int) error {
		return ignoreExists(create(u, newDiskUser(fmt.Sprint("user-", i), fmt.Sprint("disk-", i), u.nodeName(node), "good:1")))
	})
	Await(u, u.nodeName(node), func(one *corev1.Node) error {
		return unless(len(one.Status.VolumesAttached) == n && len(one.Status.VolumesInUse) == n, len(one.Status.VolumesAttached))
	})
}

// diskUsers are the pods that need a disk on nodes that leave it to the controller to attach it, by node.
func diskUsers(v *View) map[*corev1.PersistentVolume]map[string]*corev1.Pod {
	users := map[*corev1.PersistentVolume]map[string]*corev1.Pod{}
	for _, p := range subjects[*corev1.Pod](v) {
		n := one[*corev1.Node](v, "", p.Spec.NodeName)
		if n == nil || n.Annotations[attaching] == "" || ended(p) || p.DeletionTimestamp != nil {
			continue
		}
		for _, volume := range p.Spec.Volumes {
			if volume.PersistentVolumeClaim == nil {
				continue
			}
			claim := one[*corev1.PersistentVolumeClaim](v, p.Namespace, volume.PersistentVolumeClaim.ClaimName)
			if claim == nil || claim.Status.Phase != corev1.ClaimBound {
				continue
			}
			disk := one[*corev1.PersistentVolume](v, "", claim.Spec.VolumeName)
			if nameOnNode(disk) == "" || disk.Spec.ClaimRef == nil || disk.Spec.ClaimRef.UID != claim.UID {
				continue
			}
			if users[disk] == nil {
				users[disk] = map[string]*corev1.Pod{}
			}
			users[disk][n.Name] = p
		}
	}
	return users
}

// attachmentsSettled checks that disks are attached where pods need them, to one node if no more may have them, and nowhere else; and
// that nodes list what is attached and nothing else.
func attachmentsSettled(v *View) (wrong []string) {
	users := diskUsers(v)
	attached := map[string]map[string]*storagev1.VolumeAttachment{} // by volume and node
	for _, a := range subjects[*storagev1.VolumeAttachment](v) {
		name := ptr.Deref(a.Spec.Source.PersistentVolumeName, "")
		if attached[name] == nil {
			attached[name] = map[string]*storagev1.VolumeAttachment{}
		}
		attached[name][a.Spec.NodeName] = a
		disk, n := one[*corev1.PersistentVolume](v, "", name), one[*corev1.Node](v, "", a.Spec.NodeName)
		if !strings.HasPrefix(a.Name, "csi-") ||
			n != nil && (n.Annotations[attaching] == "" || slices.Contains(n.Status.VolumesInUse, nameOnNode(disk))) {
			continue
		}
		if users[disk][a.Spec.NodeName] == nil && a.DeletionTimestamp == nil && !stillEnding(v, a.Spec.NodeName) {
			wrong = append(wrong, fmt.Sprintf("%s is attached to %s, where no pod needs it", name, a.Spec.NodeName))
		}
	}
	for disk, nodes := range users {
		there := 0
		for node := range nodes {
			if a := attached[disk.Name][node]; a != nil {
				there++
			}
		}
		if many := slices.Contains(disk.Spec.AccessModes, corev1.ReadWriteMany); there < len(nodes) &&
			(many || len(attached[disk.Name]) == 0) {
			wrong = append(wrong, fmt.Sprintf("%s is attached to %d of the %d nodes where pods need it", disk.Name, there, len(nodes)))
		}
	}
	for _, n := range all[*corev1.Node](v) {
		if n.Annotations[attaching] == "" {
			continue
		}
		for name, nodes := range attached {
			a, disk := nodes[n.Name], one[*corev1.PersistentVolume](v, "", name)
			if a == nil || disk == nil || a.DeletionTimestamp != nil || users[disk][n.Name] == nil {
				continue
			}
			listed := slices.ContainsFunc(n.Status.VolumesAttached,
				func(one corev1.AttachedVolume) bool { return one.Name == nameOnNode(disk) })
			if listed != a.Status.Attached {
				wrong = append(wrong,
					fmt.Sprintf("%s is attached to %s: %t, and that the node lists it is %t", name, n.Name, a.Status.Attached, listed))
			}
		}
	}
	return wrong
}

// stillEnding reports whether a pod on a node is being deleted: it may keep its volumes.
func stillEnding(v *View, node string) bool {
	return slices.ContainsFunc(all[*corev1.Pod](v),
		func(p *corev1.Pod) bool { return p.Spec.NodeName == node && p.DeletionTimestamp != nil })
}

const (
	attachFolder = "pkg/controllers/attachdetach/"

	usedDisk = withoutElection + `
			at 1s   disk data
			at 2s   use a disk=data node=node-0`
	movedDisk = usedDisk + `
			at 20s  use b disk=data node=node-1
			at 40s  use a do=delete`
	deadNode = usedDisk + `
			at 20s  node node-0 do=stop
			at 80s  use a do=force`
)

var attachDetachMutants = []Mutant{
	{
		Name: "a volume of another node is attached",
		Edits: []Edit{{attachFolder + "plan_volume.go", "case s.Volume.Exclusive && len(others) > 0:",
			"case s.Volume.Exclusive && len(others) > 1000:"}},
		Script: movedDisk,
		Oracle: "S30",
	},
	{
		Name: "a volume is attached to all nodes that need it at once",
		Edits: []Edit{{attachFolder + "plan_volume.go", "case s.Volume.Exclusive && first != u.Node:",
			"case s.Volume.Exclusive && first == \"\":"}},
		Script: withoutElection +
			"\n\t\t\tat 1s   use a disk=data node=node-0\n\t\t\tat 1s   use b disk=data node=node-1\n\t\t\tat 10s  disk data",
		Oracle: "S30",
	},
	{
		Name: "a volume that may be attached is held for detached",
		Edits: []Edit{{attachFolder + "plan_volume.go", "if a.Spec.NodeName != node {",
			"if a.Spec.NodeName != node && a.DeletionTimestamp == nil {"}},
		Script: movedDisk + "\n\t\t\tat 39s  attacher do=stop\n\t\t\tat 80s  attacher do=start",
		Oracle: "S30",
	},
	{
		Name:  "nothing is known of the leader before",
		Edits: []Edit{{attachFolder + "observe_proof.go", "if c.made(ctx, k.views) {", "if c.attachments = true; k.root != nil {"}},
		Script: `
			set managers 2
			at 1s   disk data
			at 0s   fault m1 down for=3s
			at 20s  fault m1 freeze volumeattachments for=120s
			at 25s  use a disk=data node=node-0
			at 40s  use a do=force
			at 40s  attacher do=stop
			at 41s  fault m0 crash writes=0 after=false back=60s
			at 42s  use b disk=data node=node-1
			at 200s attacher do=start`,
		Oracle: "S30",
	},
	{
		Name: "a volume goes that its node has in use",
		Edits: []Edit{
			{attachFolder + "plan_node.go", "used := s.Node != nil && uses(s.Node, v)",
				"used := s.Node != nil && uses(s.Node, v) && s.Name == \"\""},
			{attachFolder + "plan_node.go", "used, free := uses(s.Live, v), ", "used, free := uses(s.Live, v) && s.Name == \"\", "},
		},
		Script: usedDisk + "\n\t\t\tat 19s  attacher do=hang\n\t\t\tat 20s  use a do=force\n\t\t\tat 60s  crowd nodes=0",
		Oracle: "S31",
	},
	{
		// The first bookmarks, after a minute, show that the caches know all that was written before the manager led.
		Name:  "nodes are not read live before their volumes go",
		Edits: []Edit{{attachFolder + "observe_node.go", "s.Read, s.Live = true, live", "s.Read, s.Live = true, cmp.Or(s.Node, live)"}},
		Script: withoutElection + `
			at 1s   disk data
			at 1s   disk other
			at 2s   use other disk=other node=node-0
			at 80s  attacher do=stop
			at 80s  attacher do=hang
			at 81s  fault m0 freeze nodes for=60s
			at 82s  use a disk=data node=node-0
			at 100s use a do=force`,
		Oracle: "S31",
	},
	{
		Name: "a volume is detached while its node lists it",
		Edits: []Edit{{attachFolder + "plan_node.go", "case s.Node != nil && lists(s.Node, v):", "case s.Node != nil && s.Name == \"\":"},
			{attachFolder + "plan_node.go", "|| lists(s.Live, v) {", "|| s.Live == nil {"},
			{attachFolder + "plan_node.go", "wait := writePause - since", "wait := 60*writePause - since"}},
		Script: usedDisk + "\n\t\t\tat 20s  use a do=delete",
		Oracle: "S31",
	},
	{
		Name:   "a node that is not ready gives up its volumes at once",
		Edits:  []Edit{{attachFolder + "plan_node.go", "if unneeded > unmountTimeout {", "if unneeded >= 0 {"}},
		Script: deadNode + "\n\t\t\tat 130s crowd nodes=0",
		Oracle: "S31",
	},
	{
		Name:   "a healthy node gives up its volumes after a time",
		Edits:  []Edit{{attachFolder + "plan_node.go", "case nodes.Ready(n) || untimed:", "case untimed:"}},
		Script: usedDisk + "\n\t\t\tat 19s  attacher do=hang\n\t\t\tat 20s  use a do=force\n\t\t\tat 450s crowd nodes=0",
		Oracle: "S31",
	},
	{
		Name:   "a pod that is being deleted loses its volumes",
		Edits:  []Edit{{attachFolder + "volumes.go", "(p.DeletionTimestamp == nil || runs(p))", "p.DeletionTimestamp == nil"}},
		Script: usedDisk + "\n\t\t\tat 20s  node node-0 do=stop\n\t\t\tat 60s  use a do=delete\n\t\t\tat 500s crowd nodes=0",
		Oracle: "S31",
	},
	{
		Name: "what no pod needs any more stays attached",
		Edits: []Edit{{attachFolder + "plan_node.go", "case v.Pod == \"\" && (a == nil || ours(a) && a.DeletionTimestamp == nil):",
			"case v.Pod == \"\" && a == nil:"}},
		Script: usedDisk + "\n\t\t\tat 20s  use a do=force",
		Oracle: SettledOracle,
	},
	{
		Name: "nodes are not told what is attached",
		Edits: []Edit{{attachFolder + "plan_node.go", "if d.Unwritten = removed + added; d.Unwritten == 0 {",
			"if d.Unwritten = removed + added; removed == 0 {"}},
		Script: usedDisk,
		Oracle: SettledOracle,
	},
	{
		Name: "the volume of a claim that is bound late is not attached",
		Edits: []Edit{{attachFolder + "observe_enqueue.go",
			"was.Spec.VolumeName == is.Spec.VolumeName &&\n\t\twas.Status.Phase == is.Status.Phase {",
			"was.Spec.VolumeName == is.Spec.VolumeName {"}},
		Script: withoutElection +
			"\n\t\t\tat 1s   use a disk=data node=node-0\n\t\t\tat 60s  disk data bound=false\n\t\t\tat 80s  pvc data do=bind",
		Oracle: SettledOracle,
	},
}
