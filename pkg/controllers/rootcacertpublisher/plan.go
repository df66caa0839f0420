package rootcacertpublisher

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

const (
	configMapName = "kube-root-ca.crt" // in each namespace (RCA-1)
	dataKey       = "ca.crt"

	descriptionKey = "kubernetes.io/description" // an annotation (RCA-2)
	description    = "Contains a CA bundle with which pods verify the kube-apiserver at its internal endpoints, such " +
		"as the Service " +
		"kubernetes.default. Nothing says that these authorities are to be trusted for anything else."
)

// snapshot is a namespace with its ConfigMap, and what should be in that. Observe fills it; planConfigMap and
// the metrics read it. The objects belong to shared caches.
type snapshot struct {
	Namespace *corev1.Namespace
	ConfigMap *corev1.ConfigMap // nil if there is none
	Bundle    string            // the certificate authorities that it should have, in PEM
	Restores  bool              // the bundle is known to be right, so ConfigMaps that differ are brought back to it
	Began     time.Time         // when the reconcile did
}

// planConfigMap creates the ConfigMap, or brings it back to what it should be. It changes none unless --root-ca-file
// says what is right: the authorities by which this process reaches the API server may be others than those that pods
// need.
func planConfigMap(_ time.Time, s snapshot) plan.Plan {
	data := map[string]string{dataKey: s.Bundle}
	switch {
	case s.Namespace == nil:
		return plan.Plan{Why: "the namespace is gone"}
	case s.Bundle == "":
		return plan.Plan{Why: "there are no certificate authorities to publish"}
	case s.Namespace.Status.Phase == corev1.NamespaceTerminating: // RCA-5: a creation would be refused
		return plan.Plan{Why: "the namespace is being deleted"}
	case s.ConfigMap == nil:
		return plan.Plan{Why: "create the ConfigMap " + configMapName, Steps: []plan.Step{plan.Create{
			Object: &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: s.Namespace.Name, Name: configMapName,
					Annotations: map[string]string{descriptionKey: description},
				},
				Data: data,
			},
			Why: "the namespace has no ConfigMap " + configMapName,
		}}}
	}
	if !s.Restores {
		return plan.Plan{Why: "the namespace has a ConfigMap, and without --root-ca-file none is changed"}
	}
	described := s.ConfigMap.Annotations[descriptionKey] != ""
	_, twice := s.ConfigMap.BinaryData[dataKey] // the API server refuses a key that is in both
	same := maps.Equal(s.ConfigMap.Data, data) && !twice
	if described && same {
		return plan.Plan{Why: "the ConfigMap is as it should be"}
	}
	after := s.ConfigMap.DeepCopy()
	after.Data = data
	delete(after.BinaryData, dataKey)
	if !described {
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, descriptionKey, description)
	}
	why := fmt.Sprintf("its data differ: %t, it lacks a description: %t", !same, !described)
	return plan.Plan{
		Why:   "change the ConfigMap: " + why,
		Steps: []plan.Step{plan.Change{Old: s.ConfigMap, New: after, Why: why}},
	}
}
