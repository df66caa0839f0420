package options

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/version"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	binary "k8s.io/component-base/version"
	"k8s.io/klog/v2"

	"github.com/standalone-kcm/controller-manager/internal/features"
	"github.com/standalone-kcm/controller-manager/internal/flagutil"
)

// oldestEmulated is the oldest version that --emulated-version takes (CLI-29).
const oldestEmulated = "1.34"

// obeyed are the gates that change what this build does. All others are accepted, because operators give one list to
// all components (CLI-28).
var obeyed = []string{
	"APIServerIdentity", "AllAlpha", "AllBeta", "ClusterTrustBundle", "ComponentFlagz", "ComponentStatusz",
	"CompositePodGroup", "DRADeviceTaintRules", "DRADeviceTaints", "DRAExtendedResource", "DRAResourcePoolStatus",
	"DRAWorkloadResourceClaims",
	"DeploymentReplicaSetTerminatingReplicas", "GenericWorkload", "HPAConfigurableTolerance", "HPAScaleToZero",
	"InPlacePodLevelResourcesVerticalScaling", "MaxUnavailableStatefulSet", "PersistentVolumeClaimUnusedSinceTime",
	"PodCertificateRequest", "PodDeletionCost", "PodLevelResources", "StatefulSetSemanticRevisionComparison",
	"StorageVersionAPI", "StorageVersionMigrator", "TaintTolerationComparisonOperators", "WorkloadWithJob",
	// of the logging library
	"ContextualLogging", "LoggingAlphaOptions", "LoggingBetaOptions",
	// of the client library
	"AtomicFIFO", "ClientsAllowCARotation", "ClientsAllowCBOR", "ClientsAllowTLSCacheGC", "ClientsPreferCBOR",
	"InOrderInformersBatchProcess", "InformerResourceVersion", "UnlockWhileProcessingFIFO", "WatchListClient",
}

// neededGates are those of client-go without which no controller can work: only with both does a cache report its
// version, by which controllers know whether it shows what they have written. So they are on whatever version is
// emulated.
var neededGates = []clientfeatures.Feature{clientfeatures.AtomicFIFO, clientfeatures.InOrderInformers}

// alwaysOn are gates that cannot be switched off any more, but could in versions that can be emulated. The
// controllers here always do what they stand for. Who emulates such a version and switches one off asks for what
// would not be done, so that is refused.
var alwaysOn = []string{"JobManagedBy", "PreferSameTrafficDistribution"}

// Features are the feature gates and the version to behave like.
type Features struct {
	gate     *quietGate
	registry compatibility.ComponentGlobalsRegistry
}

// newFeatures returns all feature gates of the version that this is built for, none of them switched.
func newFeatures() Features {
	gate := featuregate.NewVersionedFeatureGate(version.MustParse(binary.DefaultKubeBinaryVersion))
	f := Features{
		gate:     &quietGate{MutableVersionedFeatureGate: gate, loud: gate, known: features.All()},
		registry: compatibility.NewComponentGlobalsRegistry(),
	}
	specs, needs := features.Library()
	effective := compatibility.NewEffectiveVersionFromString(binary.DefaultKubeBinaryVersion, oldestEmulated,
		oldestEmulated)
	for _, err := range []error{
		f.gate.AddVersioned(specs),
		f.gate.AddDependencies(needs),
		f.registry.Register(compatibility.DefaultKubeComponent, effective, f.gate),
	} {
		if err != nil {
			panic(fmt.Sprintf("features.txt: %v", err)) // a test would have seen it
		}
	}
	return f
}

// addFlags adds the flags of component-base with help texts of our own, which say what has an effect here.
func (o *Features) addFlags(fs *pflag.FlagSet) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.registry.AddFlags(own)
	gates := own.Lookup("feature-gates")
	gates.Value = gatesValue{gates.Value}
	gates.Usage = "Switch features on and off, as 'PodDeletionCost=false,AllAlpha=true'. May be given several times; " +
		"a name may begin with 'kube:'.\nEvery gate of Kubernetes " + binary.DefaultKubeBinaryVersion +
		" and of the minor release before is accepted. " +
		"These have an effect here:\n" + strings.Join(o.described(), "\n")
	own.Lookup("emulated-version").Usage = "Take features as they were in an older version, from " + oldestEmulated +
		" on, as 'kube=1.36'."
	own.Lookup("min-compatibility-version").Usage = "Oldest version that the other components of the control plane " +
		"may have, as 'kube=1.36'; at most the emulated version."
	fs.AddFlagSet(own)
}

// described returns a line of help for each gate that has an effect.
func (o *Features) described() (lines []string) {
	all := o.gate.GetAll()
	for _, name := range obeyed {
		spec := all[featuregate.Feature(name)]
		stage := string(spec.PreRelease)
		if spec.PreRelease == featuregate.GA {
			stage = "GA"
		}
		lines = append(lines, fmt.Sprintf("%s=true|false (%s - default=%t)", name, stage, spec.Default))
	}
	return lines
}

// gatesValue takes `kube:` in front of some names and not of others, which the value it wraps does not.
type gatesValue struct{ pflag.Value }

// Set takes the gates without the name of the component before them.
func (v gatesValue) Set(s string) error {
	items := strings.Split(s, ",")
	for i, item := range items {
		items[i] = strings.TrimPrefix(strings.TrimSpace(item), compatibility.DefaultKubeComponent+":")
		name, value, given := strings.Cut(items[i], "=")
		if _, err := strconv.ParseBool(strings.TrimSpace(value)); given && err != nil {
			return fmt.Errorf("%s must be true or false, not %q", name, value)
		}
	}
	return v.Value.Set(strings.Join(items, ","))
}

// Type is what the help says in place of a value.
func (v gatesValue) Type() string { return "name=true|false,..." }

func (o *Features) validate() []error { return o.registry.Validate() }

// apply sets in the manager the gates that it knows of.
func (o *Features) apply(c *Config) {
	c.Features = o.gate
	c.Manager.FeatureGates = map[string]bool{}
	for name := range o.gate.GetAll() {
		if _, known := features.Default(string(name)); known {
			c.Manager.FeatureGates[string(name)] = o.gate.Enabled(name)
		}
	}
	c.Emulated = o.registry.EffectiveVersionFor(compatibility.DefaultKubeComponent).EmulationVersion().String()
}

// Apply makes the gates what the flags say, also those of client-go, which are global.
func (o *Features) Apply() error {
	if err := o.registry.Set(); err != nil {
		return o.explained(err)
	}
	for _, name := range alwaysOn {
		if o.gate.switchedOff(name) && !o.gate.Enabled(featuregate.Feature(name)) {
			return fmt.Errorf(
				"feature gate %s cannot be switched off: this build always does what it stands for, whatever version "+
					"is emulated", name)
		}
	}
	clientfeatures.ReplaceFeatureGates(clientGates{o.gate})
	o.registry.AddMetrics() // which gates are on (MH-33)
	o.gate.AddMetrics()
	return nil
}

// explained adds to the error about a gate that is not known the one that was probably meant.
func (o *Features) explained(err error) error {
	_, name, ok := strings.Cut(err.Error(), "unrecognized feature gate: ")
	if !ok {
		return err
	}
	known := map[string]string{} // by their names in small letters
	for gate := range o.gate.GetAll() {
		known[strings.ToLower(string(gate))] = string(gate)
	}
	if guess := flagutil.Closest(name, slices.Sorted(maps.Keys(known))); guess != "" {
		return fmt.Errorf("--feature-gates: %w, did you mean %s?", err, known[guess])
	}
	return fmt.Errorf("--feature-gates: %w", err)
}

// Warn logs what is to be said about the gates that were set: that some change nothing, and why.
func (o *Features) Warn(logger klog.Logger) error {
	for _, r := range o.gate.remarks() {
		logger.Info("Feature gate without effect", "gate", r.gate, "because", r.because, "itMeans", r.meaning,
			"advice", r.advice)
	}
	if names := o.gate.withoutEffect(); len(names) > 0 {
		logger.Info("Feature gates without effect in this build", "gates", names)
	}
	if len(o.gate.handedOn) == 0 {
		return nil
	}
	return o.gate.loud.SetWithLogger(logger, strings.Join(o.gate.handedOn, ",")) // which was set before
}

// clientGates answers for client-go, whose type for names is its own. All its gates are in features.txt.
type clientGates struct{ gate featuregate.FeatureGate }

// Enabled reports whether a gate of client-go is on: those of neededGates always are.
func (g clientGates) Enabled(name clientfeatures.Feature) bool {
	return slices.Contains(neededGates, name) || g.gate.Enabled(featuregate.Feature(name))
}
