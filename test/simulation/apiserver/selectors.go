package apiserver

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// selection returns the test of the selectors of a list or watch.
func (k *Kind) selection(o metav1.ListOptions) (func(Object) bool, error) {
	byLabels, err := labels.Parse(o.LabelSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	byFields, err := fields.ParseSelector(o.FieldSelector)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if !byFields.Empty() {
		known := k.fieldsOf(k.New())
		for _, r := range byFields.Requirements() {
			if !known.Has(r.Field) {
				return nil, apierrors.NewBadRequest("field label not supported: " + r.Field)
			}
		}
	}
	return func(o Object) bool {
		return byLabels.Matches(labels.Set(o.GetLabels())) && (byFields.Empty() || byFields.Matches(k.fieldsOf(o)))
	}, nil
}

// fieldsOf are the fields by which objects can be selected.
func (k *Kind) fieldsOf(o Object) fields.Set {
	set := fields.Set{}
	if k.fields != nil {
		set = k.fields(o)
	}
	set["metadata.name"] = o.GetName()
	if !k.Cluster {
		set["metadata.namespace"] = o.GetNamespace()
	}
	return set
}

func podFields(p *corev1.Pod) fields.Set {
	return fields.Set{
		"spec.nodeName": p.Spec.NodeName, "spec.restartPolicy": string(p.Spec.RestartPolicy), "spec.schedulerName": p.Spec.SchedulerName,
		"spec.serviceAccountName": p.Spec.ServiceAccountName, "spec.hostNetwork": strconv.FormatBool(p.Spec.HostNetwork),
		"status.phase": string(p.Status.Phase), "status.podIP": p.Status.PodIP, "status.nominatedNodeName": p.Status.NominatedNodeName,
	}
}

func eventFields(e *corev1.Event) fields.Set {
	o := e.InvolvedObject
	source := e.Source.Component
	if source == "" {
		source = e.ReportingController
	}
	return fields.Set{
		"involvedObject.kind": o.Kind, "involvedObject.namespace": o.Namespace, "involvedObject.name": o.Name,
		"involvedObject.uid":        string(o.UID),
		"involvedObject.apiVersion": o.APIVersion, "involvedObject.resourceVersion": o.ResourceVersion,
		"involvedObject.fieldPath": o.FieldPath,
		"reason":                   e.Reason, "reportingComponent": e.ReportingController, "source": source, "type": e.Type,
	}
}
