package selection

// controller is a name that --controllers knows.
type controller struct {
	name         string
	alias        string
	offByDefault bool // '*' leaves it off (CLI-53)

	// flag is the one whose value decides whether it is on, in place of --controllers (CLI-56); empty for
	// --controllers.
	flag string

	// needed is what does not work in a cluster where this controller is nowhere; empty where a cluster can do without.
	needed string

	// elsewhere says why the controller runs in no build of this program; empty if it may.
	elsewhere string
}

// The reasons why some names run nothing here (CLD-1, REG-53, REG-54).
const (
	loadBalancers = "load balancers of Services are the work of a cloud-controller-manager"
	routes        = "routes between nodes in a cloud are the work of a cloud-controller-manager"
	instances     = "deleting nodes whose instance in a cloud is gone is the work of a cloud-controller-manager"
	evictions     = "requests for eviction are alpha and off in 1.38, and this build does not carry them out yet"
)

// upstream are the controllers of kube-controller-manager 1.34 to 1.38: 1.37 has dropped the three of clouds (REG-72),
// and 1.38 has two more, for requests for eviction. All their names are legal, whether or not this build has them,
// because manifests carry them (CLI-55).
var upstream = []controller{
	{name: "bootstrap-signer-controller", alias: "bootstrapsigner", offByDefault: true,
		needed: "joining nodes with bootstrap tokens"},
	{name: "certificatesigningrequest-approving-controller", alias: "csrapproving",
		needed: "approving kubelets' client certificates"},
	{name: "certificatesigningrequest-cleaner-controller", alias: "csrcleaner"},
	{name: "certificatesigningrequest-signing-controller", alias: "csrsigning", needed: "signing certificates"},
	{name: "cloud-node-lifecycle-controller", alias: "cloud-node-lifecycle", elsewhere: instances},
	{name: "clusterrole-aggregation-controller", alias: "clusterrole-aggregation", needed: "aggregated ClusterRoles"},
	{name: "cronjob-controller", alias: "cronjob", needed: "CronJobs"},
	{name: "daemonset-controller", alias: "daemonset", needed: "DaemonSets"},
	{name: "deployment-controller", alias: "deployment", needed: "Deployments"},
	{name: "device-taint-eviction-controller"},
	{name: "disruption-controller", alias: "disruption", needed: "PodDisruptionBudgets"},
	{name: "endpoints-controller", alias: "endpoint"},
	{name: "endpointslice-controller", alias: "endpointslice", needed: "EndpointSlices of Services"},
	{name: "endpointslice-mirroring-controller", alias: "endpointslicemirroring"},
	{name: "ephemeral-volume-controller", alias: "ephemeral-volume", needed: "ephemeral volumes"},
	{name: "evictionrequest-controller", elsewhere: evictions},
	{name: "garbage-collector-controller", alias: "garbagecollector", needed: "deleting what deleted owners leave"},
	{name: "horizontal-pod-autoscaler-controller", alias: "horizontalpodautoscaling"},
	{name: "imperative-eviction-responder-controller", elsewhere: evictions},
	{name: "job-controller", alias: "job", needed: "Jobs"},
	{name: "kube-apiserver-serving-clustertrustbundle-publisher-controller"},
	{name: "legacy-serviceaccount-token-cleaner-controller", alias: "legacy-service-account-token-cleaner"},
	{name: "namespace-controller", alias: "namespace", needed: "deleting namespaces"},
	{name: "node-ipam-controller", alias: "nodeipam"},
	{name: "node-lifecycle-controller", alias: "nodelifecycle", needed: "noticing that nodes are down"},
	{name: "node-route-controller", alias: "route", elsewhere: routes},
	{name: "persistentvolume-attach-detach-controller", alias: "attachdetach", needed: "attaching volumes to nodes"},
	{name: "persistentvolume-binder-controller", alias: "persistentvolume-binder", needed: "binding volumes to claims"},
	{name: "persistentvolume-expander-controller", alias: "persistentvolume-expander"},
	{name: "persistentvolume-protection-controller", alias: "pv-protection", needed: "deleting persistent volumes"},
	{name: "persistentvolumeclaim-protection-controller", alias: "pvc-protection",
		needed: "deleting persistent volume claims"},
	{name: "pod-garbage-collector-controller", alias: "podgc", needed: "deleting pods of deleted nodes"},
	{name: "podcertificaterequest-cleaner-controller"},
	{name: "podgroup-protection-controller"},
	{name: "replicaset-controller", alias: "replicaset", needed: "ReplicaSets"},
	{name: "replicationcontroller-controller", alias: "replicationcontroller"},
	{name: "resourceclaim-controller", alias: "resource-claim-controller"},
	{name: "resourcepoolstatusrequest-controller"},
	{name: "resourcequota-controller", alias: "resourcequota", needed: "resource quota"},
	{name: "root-ca-certificate-publisher-controller", alias: "root-ca-cert-publisher",
		needed: "kube-root-ca.crt in new namespaces"},
	{name: "selinux-warning-controller", offByDefault: true},
	{name: "service-cidr-controller"},
	{name: "service-lb-controller", alias: "service", elsewhere: loadBalancers},
	{name: "serviceaccount-controller", alias: "serviceaccount", needed: "service accounts of new namespaces"},
	{name: "serviceaccount-token-controller", alias: "serviceaccount-token", flag: "service-account-private-key-file",
		needed: "service account tokens in Secrets"},
	{name: "statefulset-controller", alias: "statefulset", needed: "StatefulSets"},
	{name: "storage-version-migrator-controller", alias: "svm"},
	{name: "storageversion-garbage-collector-controller", alias: "storage-version-gc"},
	{name: "taint-eviction-controller", needed: "evicting pods from nodes that are down"},
	{name: "token-cleaner-controller", alias: "tokencleaner", offByDefault: true},
	{name: "ttl-after-finished-controller", alias: "ttl-after-finished"},
	{name: "ttl-controller", alias: "ttl"},
	{name: "validatingadmissionpolicy-status-controller"},
	{name: "volumeattributesclass-protection-controller"},
}

// Upstream returns the canonical names of the controllers of kube-controller-manager 1.34 to 1.38, and their
// aliases, which may be empty.
func Upstream() map[string]string {
	aliases := make(map[string]string, len(upstream))
	for _, c := range upstream {
		aliases[c.name] = c.alias
	}
	return aliases
}

// WhyNever says why a controller runs in no build of this program; empty if it may.
func WhyNever(name string) string { return byName(name).elsewhere }

// OwnFlag returns the flag whose value decides whether a controller is on, in place of --controllers; empty for that.
func OwnFlag(name string) string { return byName(name).flag }

func byName(name string) (found controller) {
	for _, c := range upstream {
		if c.name == name {
			return c
		}
	}
	return found
}
