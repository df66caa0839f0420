package servicecidr

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// fieldManager owns the condition (SCC-4).
const fieldManager = "service-cidr-controller"

// reportReady writes the condition Ready: a ServiceCIDR is, when it has the finalizer (SCC-3), and is not when it is
// being deleted and addresses keep it (SCC-5).
func reportReady(now time.Time, s snapshot, did plan.Outcome) plan.Plan {
	wanted := metav1.Condition{Type: networkingv1.ServiceCIDRConditionReady}
	var failed plan.Event
	switch {
	case did.Err != nil:
		return plan.Plan{Why: "the finalizer comes first"}
	case stays(s.CIDR):
		wanted.Status, wanted.Message = metav1.ConditionTrue, "Kubernetes Service CIDR is ready"
		failed = plan.Event{Type: corev1.EventTypeWarning, Reason: "KubernetesServiceCIDRError",
			Message: "The ServiceCIDR Status can not be set to Ready=True: {error}"}
	case leaving(s.CIDR) && s.inUse() > 0:
		wanted.Status, wanted.Reason = metav1.ConditionFalse, networkingv1.ServiceCIDRReasonTerminating
		wanted.Message = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a " +
			"new ServiceCIDR"
	default:
		return plan.Plan{Why: "the condition is not due"}
	}
	has := meta.FindStatusCondition(s.CIDR.Status.Conditions, wanted.Type)
	if has != nil && has.Status == wanted.Status && has.Reason == wanted.Reason && has.Message == wanted.Message {
		return plan.Plan{Why: "the condition is as it should be"}
	}
	wanted.LastTransitionTime = metav1.NewTime(now)
	if has != nil && has.Status == wanted.Status {
		wanted.LastTransitionTime = has.LastTransitionTime
	}
	why := "the condition Ready is " + string(wanted.Status)
	return plan.Plan{Why: why, Steps: []plan.Step{plan.Change{
		Old: s.CIDR,
		New: &networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: s.CIDR.Name, UID: s.CIDR.UID},
			Status:     networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{wanted}},
		},
		Subresource: plan.Status,
		Apply:       &plan.Apply{FieldManager: fieldManager, Force: true},
		Events:      plan.Events{Failed: failed},
		Why:         why,
	}}}
}
