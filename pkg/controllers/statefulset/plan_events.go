package statefulset

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// action is what is done to a pod or a claim, as the reasons of events say it. All events are about the StatefulSet,
// and all of their texts are in this file.
type action string

const (
	creation action = "Create"
	change   action = "Update"
	deletion action = "Delete"
)

// podEvents are those of a write to a pod (STS-70, STS-71).
func podEvents(set *appsv1.StatefulSet, a action) plan.Events {
	return plan.Events{
		Done:   done(a, fmt.Sprintf("Pod {name} in StatefulSet %s successful", set.Name)),
		Failed: failedTo(a, fmt.Sprintf("Pod {name} in StatefulSet %s failed error: {error}", set.Name)),
	}
}

// podNotCreated is the event of a pod that was not tried to create, and why (STS-71).
func podNotCreated(set *appsv1.StatefulSet, pod, why string) plan.Event {
	return failedTo(creation, fmt.Sprintf("Pod %s in StatefulSet %s failed error: %s", pod, set.Name, why))
}

// claimEvents are those of the creation of a claim for a pod (STS-72, STS-73).
func claimEvents(set *appsv1.StatefulSet, pod string) plan.Events {
	return plan.Events{
		Done: done(creation, fmt.Sprintf("Claim {name} Pod %s in StatefulSet %s success", pod, set.Name)),
		Failed: failedTo(creation,
			fmt.Sprintf("Claim {name} for Pod %s in StatefulSet %s failed error: {error}", pod, set.Name)),
	}
}

// conflictEvent says that the retention policy has no effect on a claim (STS-74).
func conflictEvent(set *appsv1.StatefulSet, claim string) plan.Event {
	return plan.Event{
		Type: corev1.EventTypeWarning, Reason: "ConflictingController",
		Message: fmt.Sprintf(
			"PersistentVolumeClaim %s is controlled by another owner: the retention policy of StatefulSet %s is "+
				"ignored for it", claim, set.Name),
	}
}

// done is the event about something that was done.
func done(a action, rest string) plan.Event {
	return plan.Event{Type: corev1.EventTypeNormal, Reason: "Successful" + string(a), Message: string(a) + " " + rest}
}

// failedTo is the event about something that could not be done.
func failedTo(a action, rest string) plan.Event {
	return plan.Event{Type: corev1.EventTypeWarning, Reason: "Failed" + string(a), Message: string(a) + " " + rest}
}
