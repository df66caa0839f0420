package apiserver

import (
	"maps"
	"strconv"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// rules are what is special about a kind.
type rules struct {
	generations bool     // metadata.generation counts the changes of the content
	annotated   bool     // and of the annotations
	labelled    bool     // and of the labels
	versioned   bool     // an update must say from which version it comes
	puttable    bool     // an update of what is not there creates it
	answered    bool     // a deletion is answered with what was deleted
	orphans     bool     // a deletion that does not say otherwise orphans the dependents
	without     []string // verbs that there are not
	anyName     bool     // names need only be parts of paths

	defaults func(Object)
	create   func(*Server, Object)                   // what else happens to a new object
	update   func(o, old Object, subresource string) // what else an update may not change
	validate func(o, old Object) field.ErrorList
	graceful func(Object, *int64) int64  // seconds between deletion and removal
	doom     func(Object)                // what else happens to an object that is to be deleted
	held     func(Object) bool           // it may not be removed yet, whatever its finalizers say
	fields   func(Object) fields.Set     // by which objects can be selected, besides name and namespace
	replicas func(Object) *replicaFields // of the subresource scale
}

// These make functions of one kind fit into the table.

func each[T Object](f func(T)) func(Object) { return func(o Object) { f(o.(T)) } }

func asks[T Object, R any](f func(T) R) func(Object) R { return func(o Object) R { return f(o.(T)) } }

func creates[T Object](f func(*Server, T)) func(*Server, Object) {
	return func(s *Server, o Object) { f(s, o.(T)) }
}

func updates[T Object](f func(o, old T, subresource string)) func(o, old Object, subresource string) {
	return func(o, old Object, subresource string) { f(o.(T), old.(T), subresource) }
}

// validates lets old be nil for a new object.
func validates[T Object](f func(o, old T) field.ErrorList) func(o, old Object) field.ErrorList {
	return func(o, old Object) field.ErrorList {
		before, _ := old.(T)
		return f(o.(T), before)
	}
}

// notServed are kinds that are not stored, or under another name. Events are those of the core group.
var notServed = sets.New(
	schema.GroupKind{Kind: "ComponentStatus"},
	schema.GroupKind{Group: "events.k8s.io", Kind: "Event"},
)

// servedEarly are kinds of versions that are not served by default.
var servedEarly = sets.New(
	apiserverinternalv1alpha1.SchemeGroupVersion.WithKind("StorageVersion"),
	schedulingv1beta1.SchemeGroupVersion.WithKind("PodGroup"),
	schedulingv1beta1.SchemeGroupVersion.WithKind("Workload"),
	resourcev1alpha3.SchemeGroupVersion.WithKind("ResourcePoolStatusRequest"),
)

// clusterScoped are the kinds whose objects have no namespace.
var clusterScoped = sets.New(
	"Namespace", "Node", "PersistentVolume",
	"ClusterRole", "ClusterRoleBinding",
	"CertificateSigningRequest", "ClusterTrustBundle", "PriorityClass", "RuntimeClass", "FlowSchema", "PriorityLevelConfiguration",
	"IngressClass", "IPAddress", "ServiceCIDR", "DeviceClass", "ResourceSlice", "DeviceTaintRule", "ResourcePoolStatusRequest",
	"CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass", "StorageVersionMigration", "StorageVersion",
	"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
)

// specialRules are the rules of kinds by resource. A kind without a line is stored as it is sent.
func specialRules() map[string]rules {
	all := workloadRules()
	maps.Copy(all, coreRules())
	maps.Copy(all, otherRules())
	return all
}

func workloadRules() map[string]rules {
	return map[string]rules{
		"pods": {
			generations: true, answered: true, defaults: each(defaultPod), create: creates(createPod), update: updates(updatePod),
			graceful: func(o Object, asked *int64) int64 { return podGrace(o.(*corev1.Pod), asked) }, fields: asks(podFields),
		},
		"replicasets": {
			generations: true, defaults: each(defaultReplicaSet), validate: validates(validateReplicaSet),
			fields: func(o Object) fields.Set { return replicasField(o.(*appsv1.ReplicaSet).Status.Replicas) },
			replicas: asks(func(rs *appsv1.ReplicaSet) *replicaFields {
				return &replicaFields{&rs.Spec.Replicas, rs.Status.Replicas, selectorText(rs.Spec.Selector)}
			}),
		},
		"deployments": {
			generations: true, annotated: true, defaults: each(defaultDeployment), validate: validates(validateDeployment),
			update: updates(updateDeployment),
			replicas: asks(func(d *appsv1.Deployment) *replicaFields {
				return &replicaFields{&d.Spec.Replicas, d.Status.Replicas, selectorText(d.Spec.Selector)}
			}),
		},
		"statefulsets": {
			generations: true, defaults: each(defaultStatefulSet),
			replicas: asks(func(s *appsv1.StatefulSet) *replicaFields {
				return &replicaFields{&s.Spec.Replicas, s.Status.Replicas, selectorText(s.Spec.Selector)}
			}),
		},
		"daemonsets": {generations: true, defaults: each(defaultDaemonSet), create: creates(createDaemonSet),
			update: updates(updateDaemonSet)},
		"replicationcontrollers": {
			generations: true, orphans: true, defaults: each(defaultReplicationController),
			fields: func(o Object) fields.Set { return replicasField(o.(*corev1.ReplicationController).Status.Replicas) },
			replicas: asks(func(rc *corev1.ReplicationController) *replicaFields {
				return &replicaFields{&rc.Spec.Replicas, rc.Status.Replicas, labels.FormatLabels(rc.Spec.Selector)}
			}),
		},
		"jobs": {
			generations: true, orphans: true, defaults: each(defaultJob), create: creates(createJob),
			fields: asks(func(j *batchv1.Job) fields.Set {
				return fields.Set{"status.successful": strconv.Itoa(int(j.Status.Succeeded))}
			}),
		},
		"cronjobs":                 {generations: true, defaults: each(defaultCronJob)},
		"horizontalpodautoscalers": {generations: true, defaults: each(defaultAutoscaler)},
		"poddisruptionbudgets":     {generations: true, versioned: true},
	}
}

func coreRules() map[string]rules {
	return map[string]rules{
		"services": {
			puttable: true, answered: true, defaults: each(defaultService), create: creates(createService), update: updates(updateService),
			fields: asks(func(s *corev1.Service) fields.Set {
				return fields.Set{"spec.clusterIP": s.Spec.ClusterIP, "spec.type": string(s.Spec.Type)}
			}),
		},
		"endpoints":      {puttable: true, defaults: each(defaultEndpoints)},
		"endpointslices": {generations: true, labelled: true, defaults: each(defaultEndpointSlice)},
		"nodes": {
			validate: validates(validateNode),
			fields: asks(func(n *corev1.Node) fields.Set {
				return fields.Set{"spec.unschedulable": strconv.FormatBool(n.Spec.Unschedulable)}
			}),
		},
		"namespaces": {
			defaults: each(defaultNamespace), create: creates(createNamespace), doom: each(doomNamespace), held: asks(holdNamespace),
			answered: true, without: []string{"deletecollection"},
			fields: asks(func(n *corev1.Namespace) fields.Set { return fields.Set{"status.phase": string(n.Status.Phase)} }),
		},
		"secrets": {
			defaults: each(defaultSecret),
			fields:   asks(func(s *corev1.Secret) fields.Set { return fields.Set{"type": string(s.Type)} }),
		},
		"persistentvolumeclaims": {answered: true, defaults: each(defaultClaim), create: creates(createClaim)},
		"persistentvolumes": {answered: true, defaults: each(defaultVolume), create: creates(createVolume),
			update: updates(updateVolume)},
		"serviceaccounts": {answered: true},
		"resourcequotas":  {answered: true},
		"podtemplates": {generations: true, answered: true,
			defaults: each(func(p *corev1.PodTemplate) { defaultTemplate(&p.Template) })},
		"limitranges": {puttable: true},
		"events":      {puttable: true, fields: asks(eventFields)},
		"leases":      {versioned: true, puttable: true},
	}
}

func otherRules() map[string]rules {
	return map[string]rules{
		"ingresses":               {generations: true},
		"networkpolicies":         {generations: true, defaults: each(defaultNetworkPolicy)},
		"ingressclasses":          {generations: true},
		"storageclasses":          {answered: true, defaults: each(defaultStorageClass)},
		"volumeattributesclasses": {answered: true, create: creates(createAttributesClass)},
		"volumeattachments":       {answered: true, versioned: true, update: keepMetaWithStatus},
		"csinodes":                {answered: true, versioned: true},
		"csidrivers": {generations: true, answered: true, versioned: true, defaults: each(defaultCSIDriver),
			create: creates(createCSIDriver)},
		"resourceclaims": {answered: true, defaults: each(defaultResourceClaim), update: keepMetaWithStatus},
		"devicetaintrules": {generations: true, versioned: true, defaults: each(defaultDeviceTaintRule),
			update: updates(updateDeviceTaintRule)},
		"podgroups": {versioned: true, defaults: each(defaultPodGroup), create: creates(createPodGroup), update: keepMetaWithStatus},
		"workloads": {versioned: true},
		"resourceslices": {generations: true, answered: true, defaults: each(defaultResourceSlice),
			fields: asks(func(s *resourcev1.ResourceSlice) fields.Set {
				return fields.Set{
					resourcev1.ResourceSliceSelectorDriver:   s.Spec.Driver,
					resourcev1.ResourceSliceSelectorPoolName: s.Spec.Pool.Name,
					resourcev1.ResourceSliceSelectorNodeName: ptr.Deref(s.Spec.NodeName, ""),
				}
			})},
		"resourcepoolstatusrequests": {versioned: true, answered: true, defaults: each(defaultPoolRequest),
			update: keepMetaWithStatus},
		"roles":                           {puttable: true},
		"clusterroles":                    {puttable: true},
		"ipaddresses":                     {anyName: true}, // they are addresses, and those of IPv6 have colons
		"rolebindings":                    {puttable: true, defaults: each(defaultRoleBinding)},
		"clusterrolebindings":             {puttable: true, defaults: each(defaultClusterRoleBinding)},
		"priorityclasses":                 {defaults: each(defaultPriorityClass), create: creates(createPriorityClass)},
		"runtimeclasses":                  {puttable: true, versioned: true},
		"validatingwebhookconfigurations": {generations: true, versioned: true},
		"mutatingwebhookconfigurations":   {generations: true, versioned: true},
		"validatingadmissionpolicies": {generations: true, versioned: true, defaults: each(defaultAdmissionPolicy),
			update: keepMetaWithStatus},
		"certificatesigningrequests": {
			create: creates(createSigningRequest), update: updates(updateSigningRequest),
			fields: asks(func(c *certificatesv1.CertificateSigningRequest) fields.Set {
				return fields.Set{"spec.signerName": c.Spec.SignerName}
			}),
		},
		"clustertrustbundles": {
			anyName: true, versioned: true,
			fields: asks(func(b *certificatesv1.ClusterTrustBundle) fields.Set {
				return fields.Set{"spec.signerName": b.Spec.SignerName}
			}),
		},
		"podcertificaterequests": {defaults: each(defaultPodCertificateRequest)},
	}
}

func replicasField(n int32) fields.Set { return fields.Set{"status.replicas": strconv.Itoa(int(n))} }

func selectorText(s *metav1.LabelSelector) string {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return ""
	}
	return selector.String()
}
