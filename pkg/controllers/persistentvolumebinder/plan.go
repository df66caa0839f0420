package persistentvolumebinder

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// Annotations that the controller shares with schedulers, provisioners and users (PV-6..11).
const (
	bindCompleted     = "pv.kubernetes.io/bind-completed"
	boundByController = "pv.kubernetes.io/bound-by-controller"
	selectedNode      = "volume.kubernetes.io/selected-node"
	provisioner       = "volume.kubernetes.io/storage-provisioner"
	betaProvisioner   = "volume.beta.kubernetes.io/storage-provisioner"
	provisionedBy     = "pv.kubernetes.io/provisioned-by"
	migratedTo        = "pv.kubernetes.io/migrated-to"
	yes               = "yes"
)

// claimSnapshot is what one reconcile of a claim has observed: the claim, and the volumes and the class that
// it may have to do with. observeClaim fills it from the caches, proveClaim adds what was read live, and
// planClaim reads it. Its objects belong to shared caches.
type claimSnapshot struct {
	Claim *corev1.PersistentVolumeClaim
	// Volume is the one that the claim names; nil if there is none. Proved says that this volume, or the claim, was
	// read live, because the two do not belong together by the caches. Late says that something else was found than the
	// cache shows.
	Volume       *corev1.PersistentVolume
	Proved, Late bool

	// Of a claim that names no volume. Unclassed says that the cache has no class of that name, and that it was not
	// read live: what depends on the class is not known then.
	Reserved  []*corev1.PersistentVolume // that name the claim
	Class     *storagev1.StorageClass    // of the claim; nil if there is none of that name
	Unclassed bool
	// ClassGone says that the class has gone a moment ago, and for how long it counts as it was.
	ClassGone time.Duration
	Default   *storagev1.StorageClass    // that the claim gets, because it names none; nil if there is none
	Free      []*corev1.PersistentVolume // that fit it
	// FreeOfDefault fit it when it has the default class.
	FreeOfDefault []*corev1.PersistentVolume
	Static        bool // no driver is asked

	// For people, of a claim that waits:
	Near   []*corev1.PersistentVolume // of which the least keeps them from the claim
	Pods   []string                   // that use it and are on no node
	Driver driver                     // that is asked, or is to be asked

	Memory claimMemory
}

// driver is what is known of a driver.
type driver struct {
	Name  string
	Known bool // there is a CSIDriver
	Nodes int  // on which it is registered
}

// claimMemory is what is remembered of a claim: the reason of the last event, so that it is not said again.
// rememberClaim makes it of the decision.
type claimMemory struct {
	UID       types.UID
	LastEvent string
}

// claimDecision is what becomes of a claim. planClaim makes it; memory, term and metrics are made of it.
type claimDecision struct {
	Bind    string // the volume that it is bound to, if that takes a write
	Waits   string // for this driver, which was asked
	Ask     string // the driver that is asked now
	Default bool   // it gets the default class
	Failed  string // the provisioner, if there can be no volume from it
	// LastEvent is the reason of the last event, this reconcile's included.
	LastEvent string
}

// planClaim binds a claim, asks for a volume, or says what it waits for.
func planClaim(_ time.Time, s claimSnapshot) (d claimDecision, p plan.Plan) {
	c := s.Claim
	switch {
	case c == nil:
		p.Why = "the claim is gone"
	case s.Late:
		d.LastEvent, p = s.Memory.LastEvent,
			plan.Plan{Why: "the cache lags behind the server, which is waited for", Requeue: late}
	case labels.Set(c.Annotations).Has(bindCompleted):
		d, p = planCompleted(s)
		p.Proof = s.proof()
	case c.DeletionTimestamp != nil: // PV-75
		d, p = wait(s, "it is being deleted, and is not bound any more", event{})
	case c.Spec.VolumeName != "":
		d, p = planNamed(s)
	default:
		d, p = planUnbound(s)
	}
	p.Requeue = plan.Sooner(p.Requeue, s.ClassGone)
	return d, p
}

// proof names what is read live of a claim that was bound and its volume, if they do not belong together by the caches:
// one may be late.
func (s claimSnapshot) proof() []plan.Ref {
	c, v := s.Claim, s.Volume
	switch {
	case s.Proved, c.Spec.VolumeName == "", v == nil && c.Status.Phase == corev1.ClaimLost, v != nil && names(v, c):
		return nil
	case v != nil && v.Spec.ClaimRef == nil:
		return []plan.Ref{claimRef(c.Namespace, c.Name)}
	}
	return []plan.Ref{volumeRef(c.Spec.VolumeName)}
}

// claimRef names a claim that is to be read live.
func claimRef(namespace, name string) plan.Ref {
	kind := corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")
	return plan.Ref{Kind: kind, Namespace: namespace, Name: name}
}

// volumeRef names a volume that is to be read live.
func volumeRef(name string) plan.Ref {
	return plan.Ref{Kind: corev1.SchemeGroupVersion.WithKind("PersistentVolume"), Name: name}
}

// classRef names a class that is to be read live.
func classRef(name string) plan.Ref {
	return plan.Ref{Kind: storagev1.SchemeGroupVersion.WithKind("StorageClass"), Name: name}
}

// planCompleted is about a claim that was bound once (PV-24..26).
func planCompleted(s claimSnapshot) (claimDecision, plan.Plan) {
	c, v := s.Claim, s.Volume
	switch {
	case c.Spec.VolumeName == "":
		return lose(s, "it names no volume any more",
			event{corev1.EventTypeWarning, "ClaimLost",
				"Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"})
	case v == nil:
		return lose(s, fmt.Sprintf("its volume %s is gone", c.Spec.VolumeName),
			event{corev1.EventTypeWarning, "ClaimLost",
				"Bound claim has lost its PersistentVolume. Data on the volume is lost!"})
	case v.Spec.ClaimRef == nil || names(v, c):
		return bind(s, v, "its volume names it")
	}
	ref := v.Spec.ClaimRef
	return lose(s,
		fmt.Sprintf("its volume %s is for the claim %s/%s with the uid %s", v.Name, ref.Namespace, ref.Name, ref.UID),
		event{corev1.EventTypeWarning, "ClaimMisbound",
			"Two claims are bound to the same volume, this one is bound incorrectly"})
}

// late is when a key is looked at again whose cache lags, if nothing leads to that before.
const late = 5 * time.Second

// planNamed is about a claim whose user has named a volume (PV-20..23).
func planNamed(s claimSnapshot) (claimDecision, plan.Plan) {
	c, v := s.Claim, s.Volume
	switch {
	case v == nil:
		return wait(s,
			fmt.Sprintf("it waits for the volume %s, which it names and which does not exist", c.Spec.VolumeName),
			event{})
	case names(v, c):
		return bind(s, v, "the two name each other")
	case v.Spec.ClaimRef != nil:
		return wait(s, fmt.Sprintf("it waits for the volume %s, which it names and which is for the claim %s/%s",
			v.Name, v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name),
			event{corev1.EventTypeWarning, "FailedBinding",
				fmt.Sprintf("volume %q already bound to a different claim.", v.Name)})
	}
	if why := mismatch(c, v); why != "" {
		return wait(s, fmt.Sprintf("it cannot have the volume %s that it names: %s", v.Name, why),
			event{corev1.EventTypeWarning, "VolumeMismatch",
				fmt.Sprintf("Cannot bind to requested volume %q: %s", v.Name, why)})
	}
	return bind(s, v, "it names the volume")
}

// planUnbound is about a claim without a volume (PV-15..19).
func planUnbound(s claimSnapshot) (claimDecision, plan.Plan) {
	c := s.Claim
	class, _ := classOf(c)
	if v := bestMatch(c, class, s.Reserved); v != nil {
		return bind(s, v, "the volume is reserved for it")
	}
	if !selectable(c) {
		return wait(s, "its selector cannot be read", event{})
	}
	if s.Unclassed {
		p := plan.Plan{Why: "its class is not in the cache", Proof: []plan.Ref{classRef(class)}}
		return claimDecision{LastEvent: s.Memory.LastEvent}, p
	}
	if !delayed(s.Class) {
		if v := bestMatch(c, class, s.Free); v != nil {
			return bind(s, v, "the volume fits it")
		}
	}
	if s.Default != nil {
		return adopt(s)
	}
	if e, why := contradiction(s); why != "" {
		return wait(s, why, e)
	}
	switch {
	case delayed(s.Class) && !labels.Set(c.Annotations).Has(selectedNode):
		return waitForPod(s)
	case class != "":
		return provision(s)
	}
	return wait(s, "no volume fits it, and it has no class"+nearMisses(s),
		event{corev1.EventTypeNormal, "FailedBinding",
			"no persistent volumes available for this claim and no storage class is set"})
}

// delayed reports whether volumes of a class are chosen when a pod is scheduled (PV-32).
func delayed(class *storagev1.StorageClass) bool {
	return class != nil && class.VolumeBindingMode != nil &&
		*class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// contradiction says that a volume is bound to the claim and has another mode (PV-38). One that is only reserved for a
// claim of the name, and does not fit, keeps nobody from making another one (PV-29, PV-18).
func contradiction(s claimSnapshot) (e event, why string) {
	for _, v := range s.Reserved {
		if v.Spec.ClaimRef.UID == s.Claim.UID && volumeMode(v.Spec.VolumeMode) != volumeMode(s.Claim.Spec.VolumeMode) {
			return event{corev1.EventTypeWarning, "VolumeMismatch",
					fmt.Sprintf("Cannot bind PersistentVolume %q to requested PersistentVolumeClaim due to "+
						"incompatible volumeMode.", v.Name)},
				fmt.Sprintf("the volume %s is bound to it, and has the volume mode %s", v.Name,
					volumeMode(v.Spec.VolumeMode))
		}
	}
	return event{}, ""
}

// waitForPodScheduled is the reason of events about claims whose pod is to be scheduled.
const waitForPodScheduled = "WaitForPodScheduled"

// waitForPod says which pods are to be scheduled (PV-17).
func waitForPod(s claimSnapshot) (claimDecision, plan.Plan) {
	why := "it waits for its first consumer: a pod that uses it is to be scheduled"
	switch n := len(s.Pods); n {
	case 0:
		return wait(s, why,
			event{corev1.EventTypeNormal, "WaitForFirstConsumer",
				"waiting for first consumer to be created before binding"})
	case 1:
		return wait(s, why+", "+s.Pods[0],
			event{corev1.EventTypeNormal, waitForPodScheduled,
				fmt.Sprintf("waiting for pod %s to be scheduled", s.Pods[0])})
	default:
		all := strings.Join(s.Pods, ",")
		return wait(s, why+", "+all,
			event{corev1.EventTypeNormal, waitForPodScheduled, fmt.Sprintf("waiting for pods %s to be scheduled", all)})
	}
}

// nearMisses says of the volumes that come nearest why they do not fit.
func nearMisses(s claimSnapshot) string {
	class, _ := classOf(s.Claim)
	w := demandOf(s.Claim, class)
	var all []string
	for _, v := range s.Near {
		all = append(all, fmt.Sprintf("%s %s", v.Name, strings.Join(w.reasons(v), ", ")))
	}
	for _, v := range s.Reserved {
		all = append(all, fmt.Sprintf("%s, which is reserved for it, %s", v.Name, strings.Join(w.reasons(v), ", ")))
	}
	if len(all) == 0 {
		return ", and there is no free one"
	}
	return "; the nearest: " + strings.Join(all, "; ")
}

// event is one of a claim or a volume; the zero event is none.
type event struct{ kind, reason, message string }

// empty reports whether there is no event.
func (e event) empty() bool { return e == event{} }

// of is the step that records the event about an object.
func (e event) of(o plan.Object) plan.Step {
	return plan.RecordEvent{Object: o, Event: plan.Event{Type: e.kind, Reason: e.reason, Message: e.message}}
}

// dedupKey is what is remembered of the event, so that it is not said again. The pods that a claim waits for change
// often: that it waits is said once.
func (e event) dedupKey() string {
	if e.reason == waitForPodScheduled {
		return e.reason
	}
	return e.reason + ": " + e.message
}
