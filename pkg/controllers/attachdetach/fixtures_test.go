package attachdetach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/standalone-kcm/controller-manager/internal/volumes"
	"github.com/standalone-kcm/controller-manager/pkg/brake"
	"github.com/standalone-kcm/controller-manager/pkg/client"
	"github.com/standalone-kcm/controller-manager/pkg/client/clienttest"
	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// bench is the controller before a server in virtual time. A driver attaches and detaches volumes, if it works, and takes a moment for
// each.
type bench struct {
	*testing.T
	*clienttest.Server
	brake *brake.Brake
	down  atomic.Bool // no read is answered
	stuck atomic.Bool // the driver does nothing
	work  sync.WaitGroup

	refuses atomic.Bool  // no VolumeAttachment may be deleted
	refused atomic.Int64 // how often one was to be

	events *record.FakeRecorder

	before func() // is called when the caches of a term are filled, and the controller does not work yet

	mu    sync.Mutex
	wrong []string
}

// run runs the controller, for each term as the leader anew, on nodes n0, n1 and so on.
func run(t *testing.T, o Options, nodes int, terms ...func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, Server: clienttest.NewServer(), events: record.NewFakeRecorder(100_000)}
		for i := range nodes {
			n := aNode()
			n.Name, n.UID = fmt.Sprint("n", i), types.UID(fmt.Sprint("uid-n", i))
			b.put(n)
		}
		b.AfterWrite(b.attacher)
		for _, test := range terms {
			entry := New(o)
			c := managertest.Context(t, b.Server, entry, managertest.Cache{Example: &corev1.Node{}},
				managertest.Cache{Example: &corev1.Pod{}},
				managertest.Cache{Example: &corev1.PersistentVolume{}}, managertest.Cache{Example: &corev1.PersistentVolumeClaim{}},
				managertest.Cache{Example: &storagev1.VolumeAttachment{}}, managertest.Cache{Example: &storagev1.CSIDriver{}})
			b.brake, c.Access.Client, c.Access.Events = c.Brake, b, b.events
			runner, err := entry.Init(c)
			if err != nil {
				t.Fatal(err)
			}
			if b.before != nil {
				b.before()
			}
			clienttest.Run(t, runner.Run, func() { test(b) })
		}
		b.work.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, wrong := range b.wrong {
			t.Error(wrong)
		}
	})
}

func (b *bench) Get(ctx context.Context, m client.Mapping, key plan.Key, into plan.Object) error {
	if b.down.Load() {
		return errors.New("down")
	}
	return b.Server.Get(ctx, m, key, into)
}

// Delete asks the driver to detach: the VolumeAttachment has its finalizer, and goes when it has done so.
func (b *bench) Delete(ctx context.Context, m client.Mapping, key plan.Key, opts metav1.DeleteOptions) error {
	if m.Kind != attachmentKind.Kind {
		return b.Server.Delete(ctx, m, key, opts)
	}
	a := &storagev1.VolumeAttachment{}
	if err := b.Server.Get(ctx, m, key, a); err != nil {
		return err
	}
	b.judge(a)
	if b.refuses.Load() {
		b.refused.Add(1)
		return apierrors.NewInternalError(errors.New("a webhook"))
	}
	if a.DeletionTimestamp == nil {
		a.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		b.put(a)
		b.later(func() error { return b.Server.Delete(b.Context(), m, key, metav1.DeleteOptions{}) })
	}
	return nil
}

// judge checks that the node of a VolumeAttachment that is to be deleted does not list the volume (AD-32).
func (b *bench) judge(a *storagev1.VolumeAttachment) {
	n := &corev1.Node{}
	if b.Server.Get(b.Context(), nodeKind, plan.Key{Name: a.Spec.NodeName}, n) != nil {
		return
	}
	for _, listed := range n.Status.VolumesAttached {
		if volumes.AttachmentOf(string(listed.Name), n.Name) == a.Name {
			b.mu.Lock()
			b.wrong = append(b.wrong, fmt.Sprintf("%s is detached from %s, which lists it", listed.Name, n.Name))
			b.mu.Unlock()
		}
	}
}

// later does something of the driver when it works.
func (b *bench) later(do func() error) {
	b.work.Go(func() {
		for time.Sleep(moment); b.stuck.Load(); time.Sleep(moment) {
		}
		if err := do(); err != nil {
			b.Error(err)
		}
	})
}

// attacher is the driver, which sees what was created.
func (b *bench) attacher(w clienttest.Write) error {
	if w.Kind == attachmentKind.Kind && w.Verb == "create" {
		b.later(func() error {
			a := &storagev1.VolumeAttachment{}
			if err := b.Server.Get(b.Context(), attachmentKind, w.Key, a); err != nil || a.DeletionTimestamp != nil {
				return nil
			}
			a.Status.Attached = true
			_, err := b.Put(a)
			return err
		})
	}
	return nil
}

func (b *bench) put(o plan.Object) {
	b.Helper()
	if _, err := b.Put(o); err != nil {
		b.Fatal(err)
	}
}

// disk makes the volume and the claim d<i>, bound to each other.
func (b *bench) disk(i int, modes ...corev1.PersistentVolumeAccessMode) {
	if len(modes) == 0 {
		modes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	b.volume(i, diskOf(i), modes...)
}

// volume is the same of any source.
func (b *bench) volume(i int, source corev1.PersistentVolumeSource, modes ...corev1.PersistentVolumeAccessMode) {
	name := fmt.Sprint("d", i)
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("claim-" + name)}}
	c.Spec.VolumeName, c.Status.Phase = name, corev1.ClaimBound
	b.put(c)
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec.AccessModes = modes
	pv.Spec.PersistentVolumeSource = source
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: name, UID: c.UID}
	b.put(pv)
}

// remove deletes an object.
func (b *bench) remove(kind client.Mapping, namespace, name string) {
	b.Helper()
	if err := b.Server.Delete(b.Context(), kind, plan.Key{Namespace: namespace, Name: name}, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
}

// pod puts a pod that uses the disk d<i> on a node.
func (b *bench) pod(name string, i int, node string) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.Now()},
		Spec: corev1.PodSpec{NodeName: node}}
	p.Spec.Volumes = []corev1.Volume{{Name: "data",
		VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("d", i)}}}}
	b.put(p)
}

func (b *bench) removePod(name string) {
	b.Helper()
	b.remove(podKind, "shop", name)
}

// makeAnew makes a Node anew, as its kubelet does.
func (b *bench) makeAnew(name string) {
	b.Helper()
	n := aNode()
	n.Name, n.UID, n.CreationTimestamp = name, "another", metav1.Now()
	b.put(n)
}

// node changes a node.
func (b *bench) node(name string, edit func(*corev1.Node)) {
	b.Helper()
	n := &corev1.Node{}
	if err := b.Server.Get(b.Context(), nodeKind, plan.Key{Name: name}, n); err != nil {
		b.Fatal(err)
	}
	edit(n)
	b.put(n)
}

// uses has a node say that it uses some disks.
func (b *bench) uses(node string, disks ...int) {
	b.node(node, func(n *corev1.Node) {
		n.Status.VolumesInUse = nil
		for _, i := range disks {
			n.Status.VolumesInUse = append(n.Status.VolumesInUse, corev1.UniqueVolumeName(csi(fmt.Sprint("d", i))))
		}
	})
}

// told returns the events since it was last called, sorted.
func (b *bench) told() (all []string) {
	for {
		select {
		case e := <-b.events.Events:
			all = append(all, e)
		default:
			slices.Sort(all)
			return all
		}
	}
}

// is checks what is attached where, as "d0:n0", with ! behind what is being detached, and which node lists what.
func (b *bench) is(want string) {
	b.Helper()
	synctest.Wait()
	var found []string
	var list storagev1.VolumeAttachmentList
	if err := b.List(b.Context(), attachmentKind, "", metav1.ListOptions{}, &list); err != nil {
		b.Fatal(err)
	}
	for _, a := range list.Items {
		text := *a.Spec.Source.PersistentVolumeName + ":" + a.Spec.NodeName
		if a.DeletionTimestamp != nil {
			text += "!"
		}
		found = append(found, text)
	}
	var nodes corev1.NodeList
	if err := b.List(b.Context(), nodeKind, "", metav1.ListOptions{}, &nodes); err != nil {
		b.Fatal(err)
	}
	for _, n := range nodes.Items {
		for _, a := range n.Status.VolumesAttached {
			found = append(found, n.Name+"="+strings.TrimPrefix(string(a.Name), csi("")))
		}
	}
	slices.Sort(found)
	if got := strings.Join(found, " "); got != want {
		b.Errorf("there is %q, want %q", got, want)
	}
}

// patches counts the writes of the status of a node.
func (b *bench) patches(node string) (n int) {
	for _, w := range b.Writes() {
		if w.Kind == nodeKind.Kind && w.Key.Name == node && w.Verb == "patch" {
			n++
		}
	}
	return n
}
