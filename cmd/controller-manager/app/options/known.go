package options

// controller is a name that --controllers knows.
type controller struct {
	name         string
	alias        string
	offByDefault bool // '*' leaves it off (CLI-53)
}

// upstream are the controllers of kube-controller-manager 1.36. All their names are legal, whether or not this build has
// them, because manifests carry them (CLI-55).
var upstream = []controller{
	{name: "bootstrap-signer-controller", alias: "bootstrapsigner", offByDefault: true},
	{name: "certificatesigningrequest-approving-controller", alias: "csrapproving"},
	{name: "certificatesigningrequest-cleaner-controller", alias: "csrcleaner"},
	{name: "certificatesigningrequest-signing-controller", alias: "csrsigning"},
	{name: "cloud-node-lifecycle-controller", alias: "cloud-node-lifecycle"},
	{name: "clusterrole-aggregation-controller", alias: "clusterrole-aggregation"},
	{name: "cronjob-controller", alias: "cronjob"},
	{name: "daemonset-controller", alias: "daemonset"},
	{name: "deployment-controller", alias: "deployment"},
	{name: "device-taint-eviction-controller"},
	{name: "disruption-controller", alias: "disruption"},
	{name: "endpoints-controller", alias: "endpoint"},
	{name: "endpointslice-controller", alias: "endpointslice"},
	{name: "endpointslice-mirroring-controller", alias: "endpointslicemirroring"},
	{name: "ephemeral-volume-controller", alias: "ephemeral-volume"},
	{name: "garbage-collector-controller", alias: "garbagecollector"},
	{name: "horizontal-pod-autoscaler-controller", alias: "horizontalpodautoscaling"},
	{name: "job-controller", alias: "job"},
	{name: "kube-apiserver-serving-clustertrustbundle-publisher-controller"},
	{name: "legacy-serviceaccount-token-cleaner-controller", alias: "legacy-service-account-token-cleaner"},
	{name: "namespace-controller", alias: "namespace"},
	{name: "node-ipam-controller", alias: "nodeipam"},
	{name: "node-lifecycle-controller", alias: "nodelifecycle"},
	{name: "node-route-controller", alias: "route"},
	{name: "persistentvolume-attach-detach-controller", alias: "attachdetach"},
	{name: "persistentvolume-binder-controller", alias: "persistentvolume-binder"},
	{name: "persistentvolume-expander-controller", alias: "persistentvolume-expander"},
	{name: "persistentvolume-protection-controller", alias: "pv-protection"},
	{name: "persistentvolumeclaim-protection-controller", alias: "pvc-protection"},
	{name: "pod-garbage-collector-controller", alias: "podgc"},
	{name: "podcertificaterequest-cleaner-controller"},
	{name: "podgroup-protection-controller"},
	{name: "replicaset-controller", alias: "replicaset"},
	{name: "replicationcontroller-controller", alias: "replicationcontroller"},
	{name: "resourceclaim-controller", alias: "resource-claim-controller"},
	{name: "resourcepoolstatusrequest-controller"},
	{name: "resourcequota-controller", alias: "resourcequota"},
	{name: "root-ca-certificate-publisher-controller", alias: "root-ca-cert-publisher"},
	{name: "selinux-warning-controller", offByDefault: true},
	{name: "service-cidr-controller"},
	{name: "service-lb-controller", alias: "service"},
	{name: "serviceaccount-controller", alias: "serviceaccount"},
	{name: "serviceaccount-token-controller", alias: "serviceaccount-token"},
	{name: "statefulset-controller", alias: "statefulset"},
	{name: "storage-version-migrator-controller", alias: "svm"},
	{name: "storageversion-garbage-collector-controller", alias: "storage-version-gc"},
	{name: "taint-eviction-controller"},
	{name: "token-cleaner-controller", alias: "tokencleaner", offByDefault: true},
	{name: "ttl-after-finished-controller", alias: "ttl-after-finished"},
	{name: "ttl-controller", alias: "ttl"},
	{name: "validatingadmissionpolicy-status-controller"},
	{name: "volumeattributesclass-protection-controller"},
}

// Upstream returns the canonical names of the controllers of kube-controller-manager 1.36, and their aliases, which may be
// empty.
func Upstream() map[string]string {
	aliases := make(map[string]string, len(upstream))
	for _, c := range upstream {
		aliases[c.name] = c.alias
	}
	return aliases
}
