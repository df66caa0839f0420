package options

import (
	"fmt"
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
)

// oldestEmulated is the oldest version that --emulated-version takes (CLI-29).
const oldestEmulated = "1.34"

// obeyed are the gates that change what this build does. All others are accepted, because operators give one list to
// all components (CLI-28).
var obeyed = []string{
	"AllAlpha", "AllBeta", "ComponentFlagz", "ComponentStatusz", "DRAExtendedResource",
	"DeploymentReplicaSetTerminatingReplicas",
	"HPAConfigurableTolerance", "HPAScaleToZero", "InPlacePodLevelResourcesVerticalScaling",
	"MaxUnavailableStatefulSet",
	"PersistentVolumeClaimUnusedSinceTime",
	"PodDeletionCost", "PodLevelResources", "StatefulSetSemanticRevisionComparison",
	"TaintTolerationComparisonOperators",
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
// controllers here always do what they stand for.
var alwaysOn = []string{"JobManagedBy", "PreferSameTrafficDistribution"}

// Features are the feature gates and the version to behave like.
type Features struct {
	gate     *quietGate
	registry compatibility.ComponentGlobalsRegistry
}

// quietGate keeps to itself what a gate has to say about values that are set, until there is a log to say it to.
type quietGate struct {
	featuregate.MutableVersionedFeatureGate
	loud featuregate.MutableFeatureGateWithLogger // the same gate
	set  []string
}

// Set implements featuregate.MutableFeatureGate.
func (g *quietGate) Set(value string) error {
	g.set = append(g.set, value)
	return g.loud.SetWithLogger(klog.Logger{}, value)
}

// given calls each for the name and the value of each gate that was given, in turn.
func (g *quietGate) given(each func(name, value string)) {
	for _, value := range g.set {
		for item := range strings.SplitSeq(value, ",") {
			if name, value, ok := strings.Cut(item, "="); ok {
				each(strings.TrimSpace(name), strings.TrimSpace(value))
			}
		}
	}
}

// switchedOff reports whether the last value that was given for the gate is false.
func (g *quietGate) switchedOff(wanted string) (off bool) {
	g.given(func(name, value string) {
		if name == wanted {
			on, err := strconv.ParseBool(value)
			off = err == nil && !on
		}
	})
	return off
}

// withoutEffect are the gates that were given and change nothing here.
func (g *quietGate) withoutEffect() (names []string) {
	g.given(func(name, _ string) {
		if !slices.Contains(obeyed, name) {
			names = append(names, name)
		}
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// newFeatures returns all feature gates of the version that this is built for, none of them switched.
func newFeatures() Features {
	gate := featuregate.NewVersionedFeatureGate(version.MustParse(binary.DefaultKubeBinaryVersion))
	f := Features{
		gate:     &quietGate{MutableVersionedFeatureGate: gate, loud: gate},
		registry: compatibility.NewComponentGlobalsRegistry(),
	}
	specs, needs := features.All()
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
	err := o.registry.Set()
	for _, name := range neededGates {
		if o.gate.switchedOff(string(name)) {
			// Before what the registry has to say, which is that other gates depend on this one.
			return fmt.Errorf(
				"feature gate %s cannot be switched off: controllers need it to know whether their caches show what "+
					"they have written", name)
		}
	}
	if err != nil {
		return err
	}
	for _, name := range alwaysOn {
		if o.gate.switchedOff(name) {
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

// Warn logs what is to be said about the gates that were set: that some change nothing, or are soon no longer known.
func (o *Features) Warn(logger klog.Logger) error {
	if names := o.gate.withoutEffect(); len(names) > 0 {
		logger.Info("Feature gates without effect in this build", "gates", names)
	}
	for _, value := range o.gate.set {
		if err := o.gate.loud.SetWithLogger(logger, value); err != nil {
			return err // not reached: it was set before
		}
	}
	return nil
}

// clientGates answers for client-go, whose type for names is its own. All its gates are in features.txt.
type clientGates struct{ gate featuregate.FeatureGate }

// Enabled reports whether a gate of client-go is on: those of neededGates always are.
func (g clientGates) Enabled(name clientfeatures.Feature) bool {
	return slices.Contains(neededGates, name) || g.gate.Enabled(featuregate.Feature(name))
}
