package selinuxwarning

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/pkg/informers"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const (
	driver = "disk.example.com"
	disk   = "kubernetes.io/csi/disk.example.com^disk" // the volume of most tests
)

type edit = func(*corev1.Pod)

// newPod has one container, and mounts nothing.
func newPod(name string, edits ...edit) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

// claiming mounts the claim of a name in the first container.
func claiming(claim string) edit {
	return with("data", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}})
}

// with mounts a volume in the first container.
func with(name string, source corev1.VolumeSource) edit {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		mounting(0, name)(p)
	}
}

// mounting mounts a volume of the pod in a container, which is made if it is not there.
func mounting(container int, name string) edit {
	return func(p *corev1.Pod) {
		for len(p.Spec.Containers) <= container {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", container)})
		}
		c := &p.Spec.Containers[container]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name})
	}
}

func options(user, role, kind, level string) *corev1.SELinuxOptions {
	return &corev1.SELinuxOptions{User: user, Role: role, Type: kind, Level: level}
}

// labelled gives a pod a level.
func labelled(level string) edit { return labelledAs(options("", "", "", level)) }

func labelledAs(o *corev1.SELinuxOptions) edit {
	return func(p *corev1.Pod) { securityOf(p).SELinuxOptions = o }
}

func securityOf(p *corev1.Pod) *corev1.PodSecurityContext {
	if p.Spec.SecurityContext == nil {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	return p.Spec.SecurityContext
}

// containerLabelled gives a container a level of its own.
func containerLabelled(container int, level string) edit {
	return func(p *corev1.Pod) {
		p.Spec.Containers[container].SecurityContext = &corev1.SecurityContext{SELinuxOptions: options("", "", "", level)}
	}
}

func recursive(p *corev1.Pod) {
	securityOf(p).SELinuxChangePolicy = ptr.To(corev1.SELinuxChangePolicyRecursive)
}

func in(namespace string) edit {
	return func(p *corev1.Pod) { p.Namespace, p.UID = namespace, types.UID("uid-"+namespace+"-"+p.Name) }
}

func phase(phase corev1.PodPhase) edit { return func(p *corev1.Pod) { p.Status.Phase = phase } }

// newClaim is one that is bound to a PersistentVolume of its name.
func newClaim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("claim-" + name), ResourceVersion: "7"},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: name},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
}

// newVolume is a PersistentVolume that is bound to a claim of its name, in shop.
func newVolume(name string, source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("volume-" + name), ResourceVersion: "7"},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: source,
			ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: name, UID: types.UID("claim-" + name)}}}
}

func csi(handle string) corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}}
}

func newDriver(mounts *bool) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver, UID: "uid-driver", ResourceVersion: "7"},
		Spec: storagev1.CSIDriverSpec{SELinuxMount: mounts}}
}

// storage is a volume of a driver that may be mounted with a label, and its claim.
func storage() []plan.Object {
	return []plan.Object{newClaim("disk"), newVolume("disk", csi("disk")), newDriver(ptr.To(true))}
}

// cachesWith returns caches with these objects.
func cachesWith(t interface{ Fatal(...any) }, objects ...plan.Object) *caches {
	k, err := newCaches(informers.NewFactory(fake.NewClientset(), 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		store := k.byClaim.Informer()
		switch o.(type) {
		case *corev1.PersistentVolumeClaim:
			store = k.claims.Informer()
		case *corev1.PersistentVolume:
			store = k.volumes.Informer()
		case *storagev1.CSIDriver:
			store = k.drivers.Informer()
		}
		if err := store.GetIndexer().Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// look returns what is observed of a volume.
func look(t interface{ Fatal(...any) }, volume string, objects ...plan.Object) snapshot {
	o, err := cachesWith(t, objects...).observe(context.Background(), request{Key: plan.Key{Name: volume}})
	if err != nil {
		t.Fatal(err)
	}
	return o.Snapshot
}

// on returns the snapshot of pods that mount the disk.
func on(t *testing.T, pods ...*corev1.Pod) snapshot {
	t.Helper()
	return look(t, disk, append(storage(), plan.Objects(pods)...)...)
}

// events returns what a plan tells of whom.
func events(p plan.Plan) (all []string) {
	for _, step := range p.Steps {
		e := step.(plan.RecordEvent)
		all = append(all, fmt.Sprintf("%s %s/%s: %s", e.Event.Type, e.Event.Reason, e.Object.GetName(), e.Event.Message))
	}
	return all
}

func ownedBy(p *corev1.Pod) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(p, corev1.SchemeGroupVersion.WithKind("Pod"))}
}
