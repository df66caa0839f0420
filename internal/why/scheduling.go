package why

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/component-helpers/resource"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/nodes"
	"github.com/standalone-kcm/controller-manager/internal/workloads/podutil"
	"github.com/standalone-kcm/controller-manager/pkg/client"
)

// What the scheduler says of a pod that fits no node. Each part counts nodes: "0/3 nodes are available: 3 ...".
var (
	claimNotFound = regexp.MustCompile(`persistentvolumeclaim "([^"]+)" not found`)
	lostClaim     = regexp.MustCompile(
		`persistentvolumeclaim "([^"]+)" (bound to non-existent persistentvolume|is being deleted)`)
	unboundClaim = regexp.MustCompile(`unbound immediate PersistentVolumeClaims|` +
		`didn't find available persistent volumes|persistentvolumeclaim.* not bound`)
	insufficient = regexp.MustCompile(`Insufficient ([a-zA-Z0-9/-]+(?:\.[a-zA-Z0-9/-]+)*)`)
	untolerated  = regexp.MustCompile(`untolerated taint(?:\(s\)| \{([^:}]+): ?([^}]*)\})`)
)

// unschedulable is a verdict on a pod by what the scheduler says of it.
func (w *world) unschedulable(ctx context.Context, p *corev1.Pod, message string) *verdict {
	v := fails(p, "Unschedulable", "no node fits: %s", message)
	if below := w.claimInTheWay(ctx, p, message); below != nil {
		return v.through(below)
	}
	if below := w.devicesInTheWay(ctx, p); below != nil {
		return v.through(below)
	}
	for _, m := range insufficient.FindAllStringSubmatch(message, -1) {
		if name := corev1.ResourceName(m[1]); w.exceeds(ctx, p, name) {
			return w.tooLarge(ctx, p, name, v)
		}
	}
	if below := w.nodesInTheWay(ctx, p, message); below != nil {
		return v.through(below)
	}
	if m := insufficient.FindStringSubmatch(message); m != nil {
		return w.tooLarge(ctx, p, corev1.ResourceName(m[1]), v)
	}
	return v
}

// claimInTheWay is a verdict on a claim for which a pod is not scheduled.
func (w *world) claimInTheWay(ctx context.Context, p *corev1.Pod, message string) *verdict {
	if m := claimNotFound.FindStringSubmatch(message); m != nil {
		return w.noClaim(ctx, p, m[1])
	}
	if m := lostClaim.FindStringSubmatch(message); m != nil {
		if c, is := get[*corev1.PersistentVolumeClaim](ctx, w, p.Namespace, m[1]); is == present {
			return w.explain(ctx, c)
		}
	}
	affinity := strings.Contains(message, "volume node affinity conflict") ||
		strings.Contains(message, "PersistentVolume's node affinity")
	once := strings.Contains(message, "ReadWriteOncePod")
	for _, name := range podutil.Claims(p) {
		c, is := get[*corev1.PersistentVolumeClaim](ctx, w, p.Namespace, name)
		switch {
		case is == absent:
			return w.noClaim(ctx, p, name)
		case is != present:
		case affinity && c.Spec.VolumeName != "":
			return w.elsewhere(ctx, c)
		case once && slices.Contains(c.Spec.AccessModes, corev1.ReadWriteOncePod):
			return w.usedOnce(ctx, p, c)
		case c.Status.Phase != corev1.ClaimBound && unboundClaim.MatchString(message):
			return w.explain(ctx, c)
		}
	}
	return nil
}

// noClaim is a verdict on a claim of a pod that does not exist. One of an ephemeral volume may have been refused.
func (w *world) noClaim(ctx context.Context, p *corev1.Pod, name string) *verdict {
	for _, v := range p.Spec.Volumes {
		if v.Ephemeral == nil || podutil.EphemeralClaim(p, &v) != name {
			continue
		}
		if e := withReason(w.warnings(ctx, p), "FailedBinding"); e != nil {
			return w.refused(ctx, p, e.Message)
		}
	}
	return lacking[*corev1.PersistentVolumeClaim](p.Namespace, name, "it does not exist, and pod %s wants it", p.Name)
}

// elsewhere is a verdict on a volume that is not where the pod may be.
func (w *world) elsewhere(ctx context.Context, c *corev1.PersistentVolumeClaim) *verdict {
	pv, is := get[*corev1.PersistentVolume](ctx, w, "", c.Spec.VolumeName)
	if is != present {
		return fails(c, "VolumeNodeAffinity", "its volume %s can be used on other nodes only", c.Spec.VolumeName)
	}
	return fails(pv, "VolumeNodeAffinity", "it can be used on other nodes only%s", affinityText(pv))
}

func affinityText(pv *corev1.PersistentVolume) string {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return ""
	}
	var parts []string
	for _, t := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range t.MatchExpressions {
			parts = append(parts, fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ",")))
		}
	}
	return ": " + strings.Join(parts, ", ")
}

// usedOnce is a verdict on a claim that one pod can use, and another one does.
func (w *world) usedOnce(ctx context.Context, p *corev1.Pod, c *corev1.PersistentVolumeClaim) *verdict {
	for _, other := range list[*corev1.Pod](ctx, w, p.Namespace, nil) {
		if other.Name != p.Name && usesClaim(other, c.Name) {
			return fails(c, "ReadWriteOncePod", "one pod can use it, and pod %s does", other.Name).until("pod %s ends",
				other.Name)
		}
	}
	return nil
}

// devicesInTheWay is a verdict on a device claim of a pod without an allocation.
func (w *world) devicesInTheWay(ctx context.Context, p *corev1.Pod) *verdict {
	for _, ref := range p.Spec.ResourceClaims {
		name := ""
		switch {
		case ref.ResourceClaimName != nil:
			name = *ref.ResourceClaimName
		case ref.ResourceClaimTemplateName != nil:
			made := slices.IndexFunc(p.Status.ResourceClaimStatuses, func(s corev1.PodResourceClaimStatus) bool {
				return s.Name == ref.Name && s.ResourceClaimName != nil
			})
			if made < 0 {
				return w.noTemplate(ctx, p, *ref.ResourceClaimTemplateName)
			}
			name = *p.Status.ResourceClaimStatuses[made].ResourceClaimName
		}
		c, is := get[*resourcev1.ResourceClaim](ctx, w, p.Namespace, name)
		switch {
		case is == absent:
			return lacking[*resourcev1.ResourceClaim](p.Namespace, name, "it does not exist, and pod %s wants it",
				p.Name)
		case is == present && c.Status.Allocation == nil:
			return w.deviceClaim(ctx, c)
		}
	}
	return nil
}

// noTemplate is a verdict on a pod whose claim was not made.
func (w *world) noTemplate(ctx context.Context, p *corev1.Pod, template string) *verdict {
	if _, is := get[*resourcev1.ResourceClaimTemplate](ctx, w, p.Namespace, template); is == absent {
		return lacking[*resourcev1.ResourceClaimTemplate](p.Namespace, template,
			"it does not exist, and pod %s wants it", p.Name)
	}
	if e := withReason(w.warnings(ctx, p), "FailedResourceClaimCreation"); e != nil {
		return w.refused(ctx, p, e.Message)
	}
	return waits(p, "NoClaim", "its claim of template %s is not made yet", template)
}

// deviceClaim is a verdict on a claim of devices.
func (w *world) deviceClaim(ctx context.Context, c *resourcev1.ResourceClaim) *verdict {
	if c.Status.Allocation != nil {
		return fine(c, "its devices are allocated")
	}
	for _, r := range c.Spec.Devices.Requests {
		requests := r.FirstAvailable
		if r.Exactly != nil {
			requests = append(requests, resourcev1.DeviceSubRequest{DeviceClassName: r.Exactly.DeviceClassName})
		}
		for _, one := range requests {
			if _, is := get[*resourcev1.DeviceClass](ctx, w, "", one.DeviceClassName); is == absent {
				return fails(c, "NoDeviceClass", "its device class does not exist").
					through(lacking[*resourcev1.DeviceClass]("", one.DeviceClassName,
						"it does not exist, and claim %s wants it", c.Name))
			}
		}
	}
	if len(c.Status.ReservedFor) == 0 && !w.wanted(ctx, c) {
		return waits(c, "NoConsumer", "it is allocated when a pod uses it, and none does").until("a pod uses it")
	}
	offered := list[*resourcev1.ResourceSlice](ctx, w, "", nil)
	if w.unlisted(client.KindFor[*resourcev1.ResourceSlice](), "") {
		return fails(c, "NotAllocated", "it has no devices, and what drivers offer could not be read%s",
			classesText(c)).inferred()
	}
	devices := 0
	for _, s := range offered {
		devices += len(s.Spec.Devices)
	}
	return fails(c, "NotAllocated", "none of the %d devices that drivers offer fits it, or those that do are taken%s",
		devices,
		classesText(c))
}

func classesText(c *resourcev1.ResourceClaim) string {
	var classes []string
	for _, r := range c.Spec.Devices.Requests {
		if r.Exactly != nil {
			classes = append(classes, r.Exactly.DeviceClassName)
		}
		for _, one := range r.FirstAvailable {
			classes = append(classes, one.DeviceClassName)
		}
	}
	return fmt.Sprintf(" (device classes: %s)", strings.Join(classes, ", "))
}

// wanted reports whether a pod refers to a claim.
func (w *world) wanted(ctx context.Context, c *resourcev1.ResourceClaim) bool {
	for _, p := range list[*corev1.Pod](ctx, w, c.Namespace, nil) {
		for _, ref := range p.Spec.ResourceClaims {
			if ref.ResourceClaimName != nil && *ref.ResourceClaimName == c.Name {
				return true
			}
		}
		for _, s := range p.Status.ResourceClaimStatuses {
			if s.ResourceClaimName != nil && *s.ResourceClaimName == c.Name {
				return true
			}
		}
	}
	return false
}

// nodesInTheWay is a verdict on a node that would take a pod, were it not cordoned or tainted; nil if one of the nodes
// on which the pod may be is neither: that has no room, or the pod does not want to be there.
func (w *world) nodesInTheWay(ctx context.Context, p *corev1.Pod, message string) *verdict {
	cordoned := strings.Contains(message, "were unschedulable")
	if !cordoned && !untolerated.MatchString(message) {
		return nil
	}
	var candidate *verdict
	for _, n := range w.nodesFor(ctx, p) {
		v := w.refusesPod(ctx, p, n)
		if v == nil {
			return nil
		}
		if candidate == nil || v.worse(candidate) {
			candidate = v
		}
	}
	return candidate
}

// nodesFor are the nodes on which a pod may be, as far as its selector and its affinity to nodes say.
func (w *world) nodesFor(ctx context.Context, p *corev1.Pod) (some []*corev1.Node) {
	affinity := nodeaffinity.GetRequiredNodeAffinity(p)
	for _, n := range list[*corev1.Node](ctx, w, "", nil) {
		if fits, err := affinity.Match(n); fits && err == nil {
			some = append(some, n)
		}
	}
	return some
}

// refusesPod is a verdict on a node that takes no pods like this; nil if it does.
func (w *world) refusesPod(ctx context.Context, p *corev1.Pod, n *corev1.Node) *verdict {
	if !nodes.Ready(n) {
		return w.node(ctx, n)
	}
	if n.Spec.Unschedulable {
		return fails(n, "Cordoned", "it is cordoned (spec.unschedulable)").until("somebody uncordons it")
	}
	taint, untolerated := schedulinghelpers.FindMatchingUntoleratedTaint(klog.FromContext(ctx), n.Spec.Taints,
		p.Spec.Tolerations,
		func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }, false)
	if !untolerated {
		return nil
	}
	return fails(n, "Tainted", "its taint %s is not tolerated by pod %s", taint.ToString(), p.Name).
		until("the taint goes, or the pod template tolerates it")
}

// exceeds reports whether a pod requests more of a resource than any node has that it may be on.
func (w *world) exceeds(ctx context.Context, p *corev1.Pod, name corev1.ResourceName) bool {
	wants, all := requestOf(p, name), w.nodesFor(ctx, p)
	for _, n := range all {
		if has := n.Status.Allocatable[name]; wants.Cmp(has) <= 0 {
			return false
		}
	}
	return len(all) > 0 // else it may be on none, or they could not be read: the scheduler has seen some
}

// tooLarge adds to a verdict whether any node is large enough for a pod.
func (w *world) tooLarge(ctx context.Context, p *corev1.Pod, name corev1.ResourceName, v *verdict) *verdict {
	wants, all := requestOf(p, name), w.nodesFor(ctx, p)
	var largest resource.Quantity
	for _, n := range all {
		if q := n.Status.Allocatable[name]; q.Cmp(largest) > 0 {
			largest = q
		}
	}
	if len(all) == 0 { // they may not be read
		v.says = fmt.Sprintf("it requests %s of %s: %s", wants.String(), name, v.says)
		return v.until("pods end, larger or more nodes come, or the pod template requests less")
	}
	if wants.Cmp(largest) > 0 {
		v.reason = "TooLarge"
		v.says = fmt.Sprintf("it requests %s of %s, and the largest node has %s: %s", wants.String(), name,
			largest.String(), v.says)
		return v.until("the pod template requests less, or a larger node comes").through(w.mutated(ctx, p, name))
	}
	v.reason = "NoRoom"
	v.says = fmt.Sprintf("it requests %s of %s, and no node has that left: %s", wants.String(), name, v.says)
	return v.until("pods end, or nodes come").through(w.rivals(ctx, p, name))
}

// rivals is a verdict on a pod of higher priority that has the place that another one wants; nil if there is none.
func (w *world) rivals(ctx context.Context, p *corev1.Pod, name corev1.ResourceName) *verdict {
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		if v := w.preempted(ctx, p, owner.Name); v != nil {
			return v
		}
	}
	const enough = 3 // nodes; the pods of all would be too many to read
	var largest *corev1.Pod
	looked := 0
	for _, n := range w.nodesFor(ctx, p) {
		if looked++; looked > enough {
			break
		}
		for _, other := range w.podsOn(ctx, n.Name) {
			higher := ptr.Deref(other.Spec.Priority, 0) > ptr.Deref(p.Spec.Priority, 0) && !podutil.Finished(other)
			takes := requestOf(other, name)
			if higher && !takes.IsZero() && (largest == nil || takes.Cmp(requestOf(largest, name)) > 0) {
				largest = other
			}
		}
	}
	if largest == nil {
		return nil
	}
	takes := requestOf(largest, name)
	return fails(largest, "HigherPriority", "it takes %s of %s on node %s, and its priority is higher (%s)",
		takes.String(), name,
		largest.Spec.NodeName, priorityOf(largest)).inferred()
}

// requestOf is how much of a resource a pod requests, as the scheduler counts it.
func requestOf(p *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	return podresources.PodRequests(p, podresources.PodResourcesOptions{})[name]
}

// wordIn reports whether a name stands in a text as a word of its own.
func wordIn(text, name string) bool {
	return slices.ContainsFunc(strings.Fields(text), func(word string) bool {
		return strings.Trim(word, `"'.,:;()`) == name
	})
}
