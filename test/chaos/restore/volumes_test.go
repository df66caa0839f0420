package restore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/test/simulation/actors"
)

// volumeDriver is the CSI driver whose parts the test plays. What is Released and to be deleted it deletes at once, with all data.
const volumeDriver = "restore.example.com"

// attaching has the controller manager attach volumes to a node.
const attaching = "volumes.kubernetes.io/controller-managed-attach-detach"

// The volumes of the backup: sorts say how they came, and fates what becomes of their claims after the backup. Each is used by a pod.
var (
	sorts = []string{"retain", "delete", "made"} // two are there before their claims, and one is made by the driver
	fates = []string{"kept", "gone", "again"}    // "again": the claim is deleted, and created anew under its name
)

// eachClaim calls do for the claims of the backup.
func eachClaim(do func(sort, fate, name string)) {
	for _, sort := range sorts {
		for _, fate := range fates {
			do(sort, fate, sort+"-"+fate)
		}
	}
}

func (r *restored) unique(name string) string { return r.ns + "-" + name }

// volumes makes the class, the volumes and claims of the backup, and pods that use them on a node to which they are attached.
func (r *restored) volumes() {
	r.Helper()
	nodes, err := r.Client.CoreV1().Nodes().List(r.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) == 0 {
		r.Fatal("there are no nodes: ", err)
	}
	r.node = nodes.Items[0].Name
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, attaching)
	if _, err := r.Client.CoreV1().Nodes().Patch(r.Context(), r.node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		r.Fatal(err)
	}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: r.unique("made")}, Provisioner: volumeDriver}
	if _, err := r.Client.StorageV1().StorageClasses().Create(r.Context(), class, metav1.CreateOptions{}); err != nil {
		r.Fatal(err)
	}
	eachClaim(func(sort, _, name string) {
		r.volume(sort, name)
		r.claim(sort, name)
		r.user(name)
	})
	r.eventually("the volumes of the backup are in use", time.Minute, func() error { return r.inUse(nil) })
}

// volume makes the volume of a claim, unless the driver does.
func (r *restored) volume(sort, name string) {
	r.Helper()
	if sort == "made" {
		return
	}
	policy := corev1.PersistentVolumeReclaimRetain
	if sort == "delete" {
		policy = corev1.PersistentVolumeReclaimDelete
	}
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: r.unique(name),
		Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": volumeDriver}}}
	v.Spec = corev1.PersistentVolumeSpec{
		Capacity: oneGi, AccessModes: once, StorageClassName: r.unique("shelf"), PersistentVolumeReclaimPolicy: policy,
		ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: r.ns, Name: name},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: volumeDriver,
			VolumeHandle: r.unique(name)}},
	}
	if _, err := r.Client.CoreV1().PersistentVolumes().Create(r.Context(), v, metav1.CreateOptions{}); err != nil {
		r.Fatal(err)
	}
}

var (
	oneGi = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	once  = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
)

func (r *restored) claim(sort, name string) {
	r.Helper()
	class := r.unique("shelf")
	if sort == "made" {
		class = r.unique("made")
	}
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: once, Resources: corev1.VolumeResourceRequirements{Requests: oneGi},
	}}
	if _, err := r.Client.CoreV1().PersistentVolumeClaims(r.ns).Create(r.Context(), c, metav1.CreateOptions{}); err != nil {
		r.Fatal(err)
	}
}

// user makes a pod that uses a claim.
func (r *restored) user(claim string) {
	r.Helper()
	_, template := labelled("user")
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: claim, Labels: map[string]string{"uses": claim}}, Spec: template.Spec}
	p.Spec.NodeName = r.node
	p.Spec.Volumes = []corev1.Volume{{Name: "data",
		VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
	if _, err := r.Client.CoreV1().Pods(r.ns).Create(r.Context(), p, metav1.CreateOptions{}); err != nil {
		r.Fatal(err)
	}
}

// stored are the claims, volumes and attachments that there are.
type stored struct {
	claims   map[string]*corev1.PersistentVolumeClaim
	volumes  map[string]*corev1.PersistentVolume
	attached map[string]*storagev1.VolumeAttachment // by the names of their volumes
}

func (r *restored) stored(ctx context.Context) (s stored, err error) {
	claims, err1 := r.Client.CoreV1().PersistentVolumeClaims(r.ns).List(ctx, metav1.ListOptions{})
	volumes, err2 := r.Client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	attachments, err3 := r.Client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err := errors.Join(err1, err2, err3); err != nil {
		return s, err
	}
	s = stored{map[string]*corev1.PersistentVolumeClaim{}, map[string]*corev1.PersistentVolume{}, map[string]*storagev1.VolumeAttachment{}}
	for i := range claims.Items {
		s.claims[claims.Items[i].Name] = &claims.Items[i]
	}
	for i, v := range volumes.Items {
		if v.Spec.ClaimRef != nil && v.Spec.ClaimRef.Namespace == r.ns || strings.HasPrefix(v.Name, r.ns+"-") {
			s.volumes[v.Name] = &volumes.Items[i]
		}
	}
	for i, a := range attachments.Items {
		if name := ptr.Deref(a.Spec.Source.PersistentVolumeName, ""); s.volumes[name] != nil {
			s.attached[name] = &attachments.Items[i]
		}
	}
	return s, nil
}

// data are the volumes of the backup, by the uids of what must all stay as it is: claims, volumes and their attachments.
func (s stored) data() map[types.UID]string {
	all := map[types.UID]string{}
	for _, c := range s.claims {
		all[c.UID] = "PersistentVolumeClaim " + c.Name
	}
	for _, v := range s.volumes {
		all[v.UID] = "PersistentVolume " + v.Name
	}
	for name, a := range s.attached {
		all[a.UID] = "VolumeAttachment of " + name
	}
	return all
}

// inUse says which claim of the backup is not bound to a volume that is bound to it and attached. Before there is a backup, it is nil.
func (r *restored) inUse(backup *stored) error {
	s, err := r.stored(r.Context())
	if err != nil {
		return err
	}
	eachClaim(func(_, _, name string) {
		c := s.claims[name]
		if c == nil {
			err = errors.Join(err, fmt.Errorf("the claim %s is gone", name))
			return
		}
		v := s.volumes[c.Spec.VolumeName]
		switch {
		case c.Status.Phase != corev1.ClaimBound:
			err = errors.Join(err, fmt.Errorf("the claim %s is %s", name, c.Status.Phase))
		case v == nil:
			err = errors.Join(err, fmt.Errorf("the volume %s of the claim %s is gone", c.Spec.VolumeName, name))
		case v.Status.Phase != corev1.VolumeBound || v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != c.UID || v.DeletionTimestamp != nil:
			err = errors.Join(err,
				fmt.Errorf("the volume %s of the claim %s is %s, for %+v, deleted at %v", v.Name, name, v.Status.Phase, v.Spec.ClaimRef,
					v.DeletionTimestamp))
		case s.attached[v.Name] == nil || !s.attached[v.Name].Status.Attached || s.attached[v.Name].DeletionTimestamp != nil:
			err = errors.Join(err, fmt.Errorf("the volume %s is not attached", v.Name))
		case backup != nil && (backup.claims[name].UID != c.UID || backup.volumes[v.Name] == nil):
			err = errors.Join(err, fmt.Errorf("the claim %s is not that of the backup, or has another volume: %s", name, v.Name))
		}
	})
	return err
}

// isBound says of a claim that it is not.
func (r *restored) isBound(claim string) error {
	c, err := r.Client.CoreV1().PersistentVolumeClaims(r.ns).Get(r.Context(), claim, metav1.GetOptions{})
	if err == nil && c.Status.Phase != corev1.ClaimBound {
		err = fmt.Errorf("it is %s", c.Status.Phase)
	}
	return err
}

// everything are the objects of the namespace that a manager could delete, with those that have none.
func (r *restored) everything() map[types.UID]string {
	r.Helper()
	s, err := r.stored(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	all := r.objects()
	maps.Copy(all, s.data())
	return all
}

// useUp deletes claims of the backup, with all that they have, and creates some of them anew. With finish it waits until the manager
// has done its part; otherwise it leaves it at work.
func (r *restored) useUp(backup stored, finish bool) {
	r.Helper()
	ctx := r.Context()
	eachClaim(func(_, fate, name string) {
		if fate == "kept" {
			return
		}
		err := errors.Join(r.Client.CoreV1().Pods(r.ns).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}),
			r.Client.CoreV1().PersistentVolumeClaims(r.ns).Delete(ctx, name, metav1.DeleteOptions{}))
		if err != nil {
			r.Fatal(err)
		}
	})
	eachClaim(func(sort, fate, name string) {
		if fate != "again" {
			return
		}
		old := backup.claims[name]
		r.eventually("the claim "+name+" is gone, and its volume free, or gone", time.Minute, func() error { return r.free(sort, old) })
		if sort == "delete" {
			r.volume(sort, name)
		}
		r.claim(sort, name)
		r.user(name)
	})
	r.claim("made", "late")
	if !finish {
		return
	}
	r.eventually("new claims have volumes", time.Minute, func() error {
		s, err := r.stored(ctx)
		eachClaim(func(_, fate, name string) {
			c := s.claims[name]
			if done := fate == "gone" && c == nil || fate == "kept" ||
				fate == "again" && c != nil && c.Status.Phase == corev1.ClaimBound; !done {
				err = errors.Join(err, fmt.Errorf("the claim %s: %v", name, c))
			}
		})
		return err
	})
}

// free says what keeps the volume of a claim that was deleted from being used anew. An administrator frees one that is to be kept.
func (r *restored) free(sort string, c *corev1.PersistentVolumeClaim) error {
	s, err := r.stored(r.Context())
	if err != nil {
		return err
	}
	if s.claims[c.Name] != nil {
		return errors.New("the claim is there")
	}
	v := s.volumes[c.Spec.VolumeName]
	switch {
	case v == nil:
		return nil
	case sort != "retain" || v.Status.Phase == corev1.VolumeBound:
		return fmt.Errorf("the volume is there, and %s", v.Status.Phase)
	case v.Spec.ClaimRef == nil:
		return nil
	}
	_, err = r.Client.CoreV1().PersistentVolumes().Patch(r.Context(), v.Name, types.MergePatchType, []byte(`{"spec":{"claimRef":null}}`),
		metav1.PatchOptions{})
	return err
}

// drive plays the driver until the test ends: it makes volumes, deletes them, and attaches them. It remembers nothing, and does nothing
// to what is not as it has seen it.
func (r *restored) drive() {
	ctx, cancel := context.WithCancel(context.Background())
	var driver sync.WaitGroup
	driver.Go(func() {
		for ctx.Err() == nil {
			if s, err := r.stored(ctx); err == nil { // otherwise the API server is away
				r.driveOnce(ctx, s)
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	r.Cleanup(driver.Wait)
	r.Cleanup(cancel)
}

// driveOnce does what there is to do. What fails is tried again at the next look.
func (r *restored) driveOnce(ctx context.Context, s stored) {
	for _, c := range s.claims {
		if c.Annotations["volume.kubernetes.io/storage-provisioner"] == volumeDriver && c.Spec.VolumeName == "" &&
			c.DeletionTimestamp == nil {
			v := actors.VolumeOf(c, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: *c.Spec.StorageClassName}}, volumeDriver)
			v.Finalizers = nil
			_, err := r.Client.CoreV1().PersistentVolumes().Create(ctx, v, metav1.CreateOptions{})
			r.tolerate(err)
		}
	}
	for _, v := range s.volumes {
		if actors.Deletable(v) {
			as := &metav1.Preconditions{UID: &v.UID, ResourceVersion: &v.ResourceVersion}
			r.tolerate(r.Client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{Preconditions: as}))
		}
	}
	for _, a := range s.attached {
		if a = a.DeepCopy(); !a.Status.Attached && a.DeletionTimestamp == nil {
			a.Status.Attached = true
			_, err := r.Client.StorageV1().VolumeAttachments().UpdateStatus(ctx, a, metav1.UpdateOptions{})
			r.tolerate(err)
		}
	}
}

// tolerate logs an answer of the API server that is not due to others, who work as well.
func (r *restored) tolerate(err error) {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) &&
		!apierrors.IsAlreadyExists(err) {
		r.Log("the driver: ", err)
	}
}
