package ignored

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// Flags are the flags of kube-controller-manager whose controllers this build does not have. They are parsed, because
// manifests carry them (CLI-49), and otherwise left alone.
type Flags struct {
	flags *pflag.FlagSet
	taken func(name string) bool // whether there is such a flag already, because this build has its controller
}

// New returns the flags. Taken reports which names other flags have already.
func New(taken func(name string) bool) *Flags { return &Flags{taken: taken} }

// AddFlags adds those that are not taken.
func (o *Flags) AddFlags(fs *pflag.FlagSet) {
	o.flags = fs
	for _, owner := range table {
		for _, f := range owner.flags {
			if !o.taken(f.name) {
				add(fs, f.name, f.value, "For "+owner.name+".")
			}
		}
	}
	for _, name := range []string{"allow-untagged-cloud", "node-sync-period"} {
		fs.Lookup(name).Hidden = true // deprecated upstream, and hidden there too
	}
}

// add adds a flag of the type of its default.
func add(fs *pflag.FlagSet, name string, value any, usage string) {
	switch v := value.(type) {
	case bool:
		fs.Bool(name, v, usage)
	case string:
		fs.String(name, v, usage)
	case time.Duration:
		fs.Duration(name, v, usage)
	case int32:
		fs.Int32(name, v, usage)
	case float32:
		fs.Float32(name, v, usage)
	case float64:
		fs.Float64(name, v, usage)
	default:
		panic(fmt.Sprintf("--%s: no flag of type %T", name, value)) // a test would have seen it
	}
}

// Validate rejects only what would be a grave misunderstanding: that there is a cloud provider in here.
func (o *Flags) Validate() []error {
	if name := o.flags.Lookup("cloud-provider").Value.String(); name != "" && name != "external" {
		return []error{fmt.Errorf(
			"--cloud-provider=%q: must be \"external\" or empty, cloud providers are not built in", name)}
	}
	return nil
}

// removed are the flags that the original no longer has, with what each did and what to do.
var removed = map[string]string{
	"--concurrent-service-syncs": "removed in 1.37; it set the workers for load balancers of clouds, which are the " +
		"work of a cloud-controller-manager; leave it out",
}

// gone are flags that no release from 1.34 on has, and that command lines may still carry, with what to do.
var gone = map[string]string{
	"pod-eviction-timeout": "since 1.27, tolerations of pods say how long they stay on a node that is lost " +
		"(tolerationSeconds)",
	"enable-taint-manager":                  "since 1.27, taints evict, see --controllers=*,-taint-eviction-controller",
	"port":                                  "there is no insecure port; leave it out, and see --secure-port",
	"address":                               "there is no insecure port; leave it out, and see --bind-address",
	"experimental-cluster-signing-duration": "it is called --cluster-signing-duration",
	"horizontal-pod-autoscaler-use-rest-clients": "metrics always come from the metrics APIs; leave it out",
	"horizontal-pod-autoscaler-upscale-delay":    "use behavior.scaleUp of the HorizontalPodAutoscaler",
	"horizontal-pod-autoscaler-downscale-delay":  "see --horizontal-pod-autoscaler-downscale-stabilization",
	"register-retry-count":                       "it had no effect; leave it out",
	"deleting-pods-qps":                          "it had no effect; leave it out",
	"deleting-pods-burst":                        "it had no effect; leave it out",
}

// Gone returns what to do about a flag, by its name without dashes, that the original had long ago; empty if there was
// none.
func Gone(name string) string { return gone[name] }

// Removed parts flags, such as --cluster-name, into those that the original has and those that it has no more.
func Removed(flags []string) (kept []string, gone map[string]string) {
	gone = map[string]string{}
	for _, name := range flags {
		if why, ok := removed[name]; ok {
			gone[name] = why
		} else {
			kept = append(kept, name)
		}
	}
	return kept, gone
}

// flag is one that the original has and this build accepts without effect, unless a controller of this build takes it.
type flag struct {
	name  string
	value any // default
}

// table has the flags of all controllers of the original, whether or not this build has them.
var table = []struct {
	name  string // whose flags these are
	flags []flag
}{
	{"cloud providers and node networks", []flag{
		{"allocate-node-cidrs", false},
		{"allow-untagged-cloud", false},
		{"cidr-allocator-type", "RangeAllocator"},
		{"cloud-config", ""},
		{"cloud-provider", ""},
		{"cluster-cidr", ""},
		{"cluster-name", "kubernetes"},
		{"configure-cloud-routes", true},
		{"external-cloud-volume-plugin", ""},
		{"node-sync-period", time.Duration(0)},
		{"route-reconciliation-period", 10 * time.Second},
	}},
	{"sharing controllers with a cloud-controller-manager", []flag{
		{"enable-leader-migration", false},
		{"leader-migration-config", ""},
	}},
	{"persistentvolume-attach-detach-controller", []flag{
		{"attach-detach-reconcile-sync-period", time.Minute},
		{"disable-attach-detach-reconcile-sync", false},
		{"disable-force-detach-on-timeout", false},
	}},
	{"certificatesigningrequest-signing-controller", []flag{
		{"cluster-signing-cert-file", ""},
		{"cluster-signing-duration", 8760 * time.Hour},
		{"cluster-signing-key-file", ""},
		{"cluster-signing-kube-apiserver-client-cert-file", ""},
		{"cluster-signing-kube-apiserver-client-key-file", ""},
		{"cluster-signing-kubelet-client-cert-file", ""},
		{"cluster-signing-kubelet-client-key-file", ""},
		{"cluster-signing-kubelet-serving-cert-file", ""},
		{"cluster-signing-kubelet-serving-key-file", ""},
		{"cluster-signing-legacy-unknown-cert-file", ""},
		{"cluster-signing-legacy-unknown-key-file", ""},
	}},
	{"cronjob-controller", []flag{{"concurrent-cron-job-syncs", int32(5)}}},
	{"deployment-controller", []flag{{"concurrent-deployment-syncs", int32(5)}}},
	{"daemonset-controller", []flag{{"concurrent-daemonset-syncs", int32(2)}}},
	{"device-taint-eviction-controller", []flag{{"concurrent-device-taint-eviction-syncs", int32(8)}}},
	{"disruption-controller", []flag{{"concurrent-disruption-syncs", int32(1)}}},
	{"endpoints-controller", []flag{
		{"concurrent-endpoint-syncs", int32(5)},
		{"endpoint-updates-batch-period", time.Duration(0)},
	}},
	{"endpointslice-controller", []flag{
		{"concurrent-service-endpoint-syncs", int32(5)},
		{"endpointslice-updates-batch-period", time.Duration(0)},
		{"max-endpoints-per-slice", int32(100)},
	}},
	{"endpointslice-mirroring-controller", []flag{
		{"mirroring-concurrent-service-endpoint-syncs", int32(5)},
		{"mirroring-endpointslice-updates-batch-period", time.Duration(0)},
		{"mirroring-max-endpoints-per-subset", int32(1000)},
	}},
	{"ephemeral-volume-controller", []flag{{"concurrent-ephemeralvolume-syncs", int32(5)}}},
	{"evictionrequest-controller", []flag{{"concurrent-eviction-request-syncs", int32(5)}}}, // since 1.38
	{"horizontal-pod-autoscaler-controller", []flag{
		{"concurrent-horizontal-pod-autoscaler-syncs", int32(5)},
		{"horizontal-pod-autoscaler-cpu-initialization-period", 5 * time.Minute},
		{"horizontal-pod-autoscaler-downscale-stabilization", 5 * time.Minute},
		{"horizontal-pod-autoscaler-initial-readiness-delay", 30 * time.Second},
		{"horizontal-pod-autoscaler-sync-period", 15 * time.Second},
		{"horizontal-pod-autoscaler-tolerance", 0.1},
	}},
	{"imperative-eviction-responder-controller", []flag{ // since 1.38
		{"concurrent-imperative-eviction-responder-syncs", int32(5)},
	}},
	{"legacy-serviceaccount-token-cleaner-controller", []flag{
		{"legacy-service-account-token-clean-up-period", 8760 * time.Hour},
	}},
	{"namespace-controller", []flag{}},
	{"node-ipam-controller", []flag{
		{"node-cidr-mask-size", int32(0)},
		{"node-cidr-mask-size-ipv4", int32(0)},
		{"node-cidr-mask-size-ipv6", int32(0)},
		{"service-cluster-ip-range", ""},
	}},
	{"node-lifecycle-controller", []flag{
		{"large-cluster-size-threshold", int32(50)},
		{"node-eviction-rate", float32(0.1)},
		{"node-monitor-grace-period", 50 * time.Second},
		{"node-monitor-period", 5 * time.Second},
		{"node-startup-grace-period", time.Minute},
		{"secondary-node-eviction-rate", float32(0.01)},
		{"unhealthy-zone-threshold", float32(0.55)},
	}},
	{"persistentvolume-binder-controller", []flag{
		{"enable-dynamic-provisioning", true},
		{"enable-hostpath-provisioner", false},
		{"flex-volume-plugin-dir", "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"},
		{"pv-recycler-increment-timeout-nfs", int32(30)},
		{"pv-recycler-minimum-timeout-hostpath", int32(60)},
		{"pv-recycler-minimum-timeout-nfs", int32(300)},
		{"pv-recycler-pod-template-filepath-hostpath", ""},
		{"pv-recycler-pod-template-filepath-nfs", ""},
		{"pv-recycler-timeout-increment-hostpath", int32(30)},
		{"pvclaimbinder-sync-period", 15 * time.Second},
	}},
	{"pod-garbage-collector-controller", []flag{{"terminated-pod-gc-threshold", int32(12500)}}},
	{"replicaset-controller", []flag{{"concurrent-replicaset-syncs", int32(5)}}},
	{"replicationcontroller-controller", []flag{{"concurrent-rc-syncs", int32(5)}}},
	{"resourceclaim-controller", []flag{{"concurrent-resourceclaim-syncs", int32(50)}}},
	{"resourcequota-controller", []flag{
		{"concurrent-resource-quota-syncs", int32(5)},
		{"resource-quota-sync-period", 5 * time.Minute},
	}},
	{"service-lb-controller", []flag{{"concurrent-service-syncs", int32(1)}}}, // until 1.36
	{"serviceaccount-token-controller", []flag{
		{"concurrent-serviceaccount-token-syncs", int32(5)},
		{"service-account-private-key-file", ""},
	}},
	{"ttl-after-finished-controller", []flag{{"concurrent-ttl-after-finished-syncs", int32(5)}}},
	{"validatingadmissionpolicy-status-controller", []flag{
		{"concurrent-validating-admission-policy-status-syncs", int32(5)},
	}},
}
