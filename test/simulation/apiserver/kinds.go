package apiserver

//lint:file-ignore SA1019 Endpoints are deprecated; the endpoint controller serves those who still use them

import (
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kind says what the server knows of a resource.
type Kind struct {
	schema.GroupVersionKind
	Resource string // in paths: the plural
	Cluster  bool   // objects have no namespace

	list func() runtime.Object
	// spec and status point to these parts of an object; nil where the kind has none. A kind with a status has the
	// subresource of that name.
	spec, status func(Object) any
	generations  bool // metadata.generation counts the changes of the spec
	annotated    bool // and of the annotations
	versioned    bool // an update must say from which version it comes
	puttable     bool // an update of what is not there creates it
	answered     bool // a deletion is answered with what was deleted

	create   func(*Server, Object) // what else happens to a new object
	defaults func(Object)
	validate func(o, old Object) field.ErrorList
	update   func(o, old Object, subresource string) // what else an update may not change
	graceful func(Object, *int64) int64              // seconds between deletion and removal
	doom     func(Object)                            // what else happens to an object that is to be deleted
}

func (k *Kind) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Resource}
}

// New returns an empty object.
func (k *Kind) New() Object { return reflect.New(k.structType()).Interface().(Object) }

func (k *Kind) structType() reflect.Type {
	items, _ := reflect.TypeOf(k.list()).Elem().FieldByName("Items")
	return items.Type.Elem()
}

func (k *Kind) sameType(o Object) bool { return reflect.TypeOf(o) == reflect.PointerTo(k.structType()) }

func copyPart(part func(Object) any, to, from Object) {
	if part != nil {
		reflect.ValueOf(part(to)).Elem().Set(reflect.ValueOf(part(from)).Elem())
	}
}

func kinds() []*Kind {
	core, apps := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion
	return []*Kind{
		{
			GroupVersionKind: core.WithKind("Pod"), Resource: "pods", list: func() runtime.Object { return &corev1.PodList{} },
			spec:        func(o Object) any { return &o.(*corev1.Pod).Spec },
			status:      func(o Object) any { return &o.(*corev1.Pod).Status },
			generations: true, answered: true, create: createPod, defaults: defaultPod, update: updatePod, graceful: podGrace,
		},
		{
			GroupVersionKind: apps.WithKind("ReplicaSet"), Resource: "replicasets", list: func() runtime.Object { return &appsv1.ReplicaSetList{} },
			spec:        func(o Object) any { return &o.(*appsv1.ReplicaSet).Spec },
			status:      func(o Object) any { return &o.(*appsv1.ReplicaSet).Status },
			generations: true, defaults: defaultReplicaSet, validate: validateReplicaSet,
		},
		{
			GroupVersionKind: core.WithKind("ReplicationController"), Resource: "replicationcontrollers",
			list:        func() runtime.Object { return &corev1.ReplicationControllerList{} },
			spec:        func(o Object) any { return &o.(*corev1.ReplicationController).Spec },
			status:      func(o Object) any { return &o.(*corev1.ReplicationController).Status },
			generations: true,
		},
		{
			GroupVersionKind: apps.WithKind("Deployment"), Resource: "deployments", list: func() runtime.Object { return &appsv1.DeploymentList{} },
			spec:        func(o Object) any { return &o.(*appsv1.Deployment).Spec },
			status:      func(o Object) any { return &o.(*appsv1.Deployment).Status },
			generations: true, annotated: true, defaults: defaultDeployment, validate: validateDeployment, update: updateDeployment,
		},
		{
			GroupVersionKind: core.WithKind("Service"), Resource: "services", list: func() runtime.Object { return &corev1.ServiceList{} },
			spec:     func(o Object) any { return &o.(*corev1.Service).Spec },
			status:   func(o Object) any { return &o.(*corev1.Service).Status },
			puttable: true, answered: true, create: createService, defaults: defaultService, update: updateService,
		},
		{
			GroupVersionKind: core.WithKind("Node"), Resource: "nodes", Cluster: true, list: func() runtime.Object { return &corev1.NodeList{} },
			spec:   func(o Object) any { return &o.(*corev1.Node).Spec },
			status: func(o Object) any { return &o.(*corev1.Node).Status },
		},
		{
			GroupVersionKind: core.WithKind("Namespace"), Resource: "namespaces", Cluster: true, list: func() runtime.Object { return &corev1.NamespaceList{} },
			spec:   func(o Object) any { return &o.(*corev1.Namespace).Spec },
			status: func(o Object) any { return &o.(*corev1.Namespace).Status },
			create: createNamespace, doom: doomNamespace,
		},
		{
			GroupVersionKind: core.WithKind("Endpoints"), Resource: "endpoints", list: func() runtime.Object { return &corev1.EndpointsList{} },
			puttable: true, defaults: defaultEndpoints,
		},
		{
			GroupVersionKind: core.WithKind("Event"), Resource: "events", list: func() runtime.Object { return &corev1.EventList{} },
			puttable: true,
		},
		{
			GroupVersionKind: core.WithKind("ServiceAccount"), Resource: "serviceaccounts", list: func() runtime.Object { return &corev1.ServiceAccountList{} },
		},
		{
			GroupVersionKind: core.WithKind("Secret"), Resource: "secrets", list: func() runtime.Object { return &corev1.SecretList{} },
		},
		{
			GroupVersionKind: core.WithKind("ConfigMap"), Resource: "configmaps", list: func() runtime.Object { return &corev1.ConfigMapList{} },
		},
		{
			GroupVersionKind: coordinationv1.SchemeGroupVersion.WithKind("Lease"), Resource: "leases", list: func() runtime.Object { return &coordinationv1.LeaseList{} },
			spec: func(o Object) any { return &o.(*coordinationv1.Lease).Spec }, versioned: true, puttable: true,
		},
	}
}
