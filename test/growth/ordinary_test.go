//go:build unix

package growth

import (
	"strconv"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	migrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cluster-bootstrap/token/api"
	"k8s.io/utils/ptr"

	"github.com/standalone-kcm/controller-manager/internal/testing/csrtest"
	"github.com/standalone-kcm/controller-manager/test/simulation/apiserver"
	"github.com/standalone-kcm/controller-manager/test/suite"
)

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

const namespace = "shop"

var labels = map[string]string{"app": "web"}

// ordinary returns an object of each kind, as they have to do with each other: those of a shop with a pod, a volume and a node.
// They have the name, but for those that must have another one.
func ordinary(name string) []apiserver.Object {
	all := append(workloads(name), network(name)...)
	all = append(all, storage(name)...)
	return append(all, policies(name)...)
}

func about(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app": "web"}}
}

// global is the metadata of an object without namespace.
func global(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}}
}

// template is that of workloads that are switched off: to create its pods is another matter than to look at an object.
func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}}
}

// oneDevice is what a claim asks for.
func oneDevice() resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "gpu",
		Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com"}}}}}
}

const gpuDriver = "gpu.example.com"

// hasDevice is the status of a claim that somebody has who is no pod.
func hasDevice() resourcev1.ResourceClaimStatus {
	return resourcev1.ResourceClaimStatus{
		Allocation: &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{Request: "gpu", Driver: gpuDriver, Pool: "web", Device: "gpu"}}}},
		ReservedFor: []resourcev1.ResourceClaimConsumerReference{{APIGroup: "example.com", Resource: "consumers", Name: "a", UID: "a"}},
	}
}

func jobSpec() batchv1.JobSpec {
	spec := batchv1.JobSpec{Parallelism: ptr.To[int32](0), Completions: ptr.To[int32](1), BackoffLimit: ptr.To[int32](6),
		Template: template(),
		Suspend:  ptr.To(true), CompletionMode: ptr.To(batchv1.NonIndexedCompletion)}
	spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return spec
}

func workloads(name string) []apiserver.Object {
	selector, none := &metav1.LabelSelector{MatchLabels: labels}, ptr.To[int32](0)
	pod := &corev1.Pod{ObjectMeta: about(name), Spec: template().Spec, Status: corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
	pod.Spec.NodeName = "node"
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
	return []apiserver.Object{
		pod,
		&appsv1.Deployment{ObjectMeta: about(name), Spec: appsv1.DeploymentSpec{Replicas: none, Selector: selector, Template: template(),
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}}},
		&appsv1.ReplicaSet{ObjectMeta: about(name), Spec: appsv1.ReplicaSetSpec{Replicas: none, Selector: selector, Template: template()}},
		&corev1.ReplicationController{ObjectMeta: about(name), Spec: corev1.ReplicationControllerSpec{
			Replicas: none, Selector: map[string]string{"app": "old"}, Template: ptr.To(template())}},
		&appsv1.StatefulSet{ObjectMeta: about(name), Spec: appsv1.StatefulSetSpec{Replicas: none, Selector: selector, Template: template(),
			RevisionHistoryLimit: ptr.To[int32](10),
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType}}},
		&appsv1.DaemonSet{ObjectMeta: about(name),
			Spec: appsv1.DaemonSetSpec{Selector: selector, Template: nowhere(), RevisionHistoryLimit: ptr.To[int32](10),
				UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}}},
		&appsv1.ControllerRevision{ObjectMeta: about(name), Revision: 1, Data: runtime.RawExtension{Raw: []byte(`{}`)}},
		&batchv1.Job{ObjectMeta: about(name), Spec: jobSpec()},
		&schedulingv1beta1.PodGroup{ObjectMeta: about(name), Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}}},
		&batchv1.CronJob{ObjectMeta: about(name),
			Spec: batchv1.CronJobSpec{Schedule: "0 0 1 1 *", ConcurrencyPolicy: batchv1.AllowConcurrent,
				SuccessfulJobsHistoryLimit: ptr.To[int32](3), FailedJobsHistoryLimit: ptr.To[int32](1),
				JobTemplate: batchv1.JobTemplateSpec{Spec: jobSpec()}}},
	}
}

// nowhere is a template of pods that no node runs.
func nowhere() corev1.PodTemplateSpec {
	t := template()
	t.Spec.NodeSelector = map[string]string{"no": "node"}
	return t
}

func network(name string) []apiserver.Object {
	port := int32(80)
	return []apiserver.Object{
		&corev1.Service{ObjectMeta: about(name),
			Spec: corev1.ServiceSpec{Selector: labels, Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.10",
				ClusterIPs: []string{"10.0.0.10"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
				IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicySingleStack),
				Ports:          []corev1.ServicePort{{Name: "http", Port: port, Protocol: corev1.ProtocolTCP}}}},
		// Those of no Service are mirrored.
		&corev1.Endpoints{ObjectMeta: about(name), Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}}, Ports: []corev1.EndpointPort{{Name: "http", Port: port}}}}},
		&discoveryv1.EndpointSlice{ObjectMeta: slice(name), AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"},
				Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
			Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: &port}}},
	}
}

// slice is the metadata of a slice of the ordinary Service.
func slice(name string) metav1.ObjectMeta {
	m := about(name)
	m.Labels[discoveryv1.LabelServiceName], m.Labels[discoveryv1.LabelManagedBy] = "web", "endpointslice-controller.k8s.io"
	return m
}

func storage(name string) []apiserver.Object {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	return []apiserver.Object{
		&corev1.PersistentVolumeClaim{ObjectMeta: about(name),
			Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes, StorageClassName: ptr.To("web"),
				Resources: corev1.VolumeResourceRequirements{Requests: size}},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}},
		&corev1.PersistentVolume{ObjectMeta: global(name),
			Spec: corev1.PersistentVolumeSpec{Capacity: size, AccessModes: modes, StorageClassName: "web",
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, PersistentVolumeSource: corev1.PersistentVolumeSource{
					CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: name}}},
			Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumePending}},
		&storagev1.StorageClass{ObjectMeta: global(name), Provisioner: "disk.example.com",
			ReclaimPolicy:     ptr.To(corev1.PersistentVolumeReclaimDelete),
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate)},
		&storagev1.CSIDriver{ObjectMeta: global(name), Spec: storagev1.CSIDriverSpec{AttachRequired: ptr.To(true)}},
		&storagev1.CSINode{ObjectMeta: global(name),
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "disk.example.com", NodeID: name}}}},
		&storagev1.VolumeAttachment{ObjectMeta: global(name),
			Spec: storagev1.VolumeAttachmentSpec{Attacher: "disk.example.com", NodeName: "node",
				Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To(name)}}},
		&storagev1.VolumeAttributesClass{ObjectMeta: global(name), DriverName: "disk.example.com"},
		&resourcev1.ResourceClaim{ObjectMeta: about(name), Spec: oneDevice(), Status: hasDevice()},
		&resourcev1.ResourceSlice{ObjectMeta: global(name), Spec: resourcev1.ResourceSliceSpec{Driver: gpuDriver, AllNodes: ptr.To(true),
			Pool: resourcev1.ResourcePool{Name: name, ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "gpu"}}}},
		&resourcev1.DeviceTaintRule{ObjectMeta: global(name), Spec: resourcev1.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1.DeviceTaintSelector{Driver: ptr.To("other.example.com")},
			Taint:          resourcev1.DeviceTaint{Key: "example.com/broken", Effect: resourcev1.DeviceTaintEffectNoSchedule}}},
		&resourcev1alpha3.ResourcePoolStatusRequest{ObjectMeta: global(name),
			Spec: resourcev1alpha3.ResourcePoolStatusRequestSpec{Driver: gpuDriver}},
		&networkingv1.ServiceCIDR{ObjectMeta: global(name), Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.9.0.0/24"}}},
		&networkingv1.IPAddress{ObjectMeta: global("10.9.0." + strconv.Itoa(len(name))), Spec: networkingv1.IPAddressSpec{
			ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: namespace, Name: name}}},
		&migrationv1.StorageVersionMigration{ObjectMeta: global(name), Spec: migrationv1.StorageVersionMigrationSpec{
			Resource: metav1.GroupResource{Group: "example.com", Resource: "relics"}}},
		&apiserverinternalv1alpha1.StorageVersion{ObjectMeta: global(name), Status: apiserverinternalv1alpha1.StorageVersionStatus{
			StorageVersions: []apiserverinternalv1alpha1.ServerStorageVersion{{APIServerID: "apiserver", EncodingVersion: "v1"}}}},
		&resourcev1.ResourceClaimTemplate{ObjectMeta: about(name), Spec: resourcev1.ResourceClaimTemplateSpec{Spec: oneDevice()}},
	}
}

func policies(name string) []apiserver.Object {
	one, kubeSystem := ptr.To[int32](1), about(name)
	kubeSystem.Namespace = metav1.NamespaceSystem
	bootstrap, token := kubeSystem, about(name+"-token")
	bootstrap.Name = api.BootstrapTokenSecretPrefix + "abc" + name[:3]
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	request := csrtest.Kubelet()
	request.ObjectMeta = global(name)
	admission := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: global(name)}
	admission.Spec = admissionv1.ValidatingAdmissionPolicySpec{
		ParamKind: &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionv1.RuleWithOperations{Rule: admissionv1.Rule{
				APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}}}}},
		Variables:   []admissionv1.Variable{{Name: "replicas", Expression: "object.spec.replicas"}},
		Validations: []admissionv1.Validation{{Expression: "variables.replicas < 5", MessageExpression: "'too many'"}},
	}
	return []apiserver.Object{
		admission,
		&policyv1.PodDisruptionBudget{ObjectMeta: about(name),
			Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}}},
		&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: about(name),
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MinReplicas: one, MaxReplicas: 3,
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
				Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
					Resource: &autoscalingv2.ResourceMetricSource{
						Name: corev1.ResourceCPU, Target: averageOfOne()}}}}},
		&corev1.ResourceQuota{ObjectMeta: about(name),
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1000")}}},
		&corev1.Namespace{ObjectMeta: global(name),
			Spec:   corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
			Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}},
		&corev1.Node{ObjectMeta: global(name), Spec: corev1.NodeSpec{PodCIDR: "10.244.0.0/24", PodCIDRs: []string{"10.244.0.0/24"}},
			Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
					LastHeartbeatTime: metav1.Now()}}}},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: corev1.NamespaceNodeLease},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &name, RenewTime: ptr.To(metav1.NowMicro())}},
		&rbacv1.ClusterRole{ObjectMeta: global(name), AggregationRule: &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"app": "other"}}}}},
		request,
		&certificatesv1.PodCertificateRequest{ObjectMeta: about(name), Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: "example.com/s", PodName: "web", NodeName: "node", StubPKCS10Request: []byte("x")}},
		&certificatesv1.ClusterTrustBundle{ObjectMeta: global(name), Spec: certificatesv1.ClusterTrustBundleSpec{TrustBundle: "x"}},
		&corev1.Secret{ObjectMeta: bootstrap, Type: api.SecretTypeBootstrapToken, Data: map[string][]byte{
			api.BootstrapTokenIDKey: []byte("abc" + name[:3]), api.BootstrapTokenSecretKey: []byte("0123456789abcdef"),
			api.BootstrapTokenUsageSigningKey: []byte("true")}},
		&corev1.Secret{ObjectMeta: token, Type: corev1.SecretTypeServiceAccountToken},
		&corev1.ServiceAccount{ObjectMeta: about(name)},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt", Namespace: namespace},
			Data: map[string]string{"ca.crt": "x"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: api.ConfigMapClusterInfo, Namespace: metav1.NamespacePublic},
			Data: map[string]string{api.KubeConfigKey: "x"}},
	}
}

// flags are those of controllers that work by the clock or need a file.
func flags() map[string]string {
	const ever = "10000h"
	return map[string]string{
		"service-account-private-key-file": suite.TokenKeyFile(), "cluster-signing-cert-file": suite.RootCAFile(),
		"cluster-signing-key-file":  suite.TokenKeyFile(),
		"node-monitor-grace-period": ever, "node-startup-grace-period": ever,
		"allocate-node-cidrs": "true", "cluster-cidr": suite.ClusterCIDR, "service-cluster-ip-range": suite.ServiceRange,
	}
}
