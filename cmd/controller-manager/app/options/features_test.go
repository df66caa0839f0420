package options

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	zpages "k8s.io/component-base/zpages/features"
	"k8s.io/klog/v2/ktesting"

	"github.com/standalone-kcm/controller-manager/internal/features"
	"github.com/standalone-kcm/controller-manager/internal/freshness"
	"github.com/standalone-kcm/controller-manager/pkg/controllers"
)

func TestFeatureGates(t *testing.T) {
	for _, test := range []struct {
		name, args string
		on, off    string
		err        string
	}{
		{name: "CLI-66 the default", on: "PodDeletionCost WatchListClient", off: "AllAlpha ClientsAllowCBOR"},
		{name: "CLI-28 off", args: "--feature-gates=PodDeletionCost=false", off: "PodDeletionCost", on: "WatchListClient"},
		{name: "CLI-28 with kube:", args: "--feature-gates=kube:PodDeletionCost=false", off: "PodDeletionCost"},
		{name: "CLI-28 with and without kube:", args: "--feature-gates=kube:PodDeletionCost=false,WatchListClient=false",
			off: "PodDeletionCost WatchListClient"},
		{name: "CLI-28 repeated", args: "--feature-gates=PodDeletionCost=false --feature-gates=WatchListClient=false",
			off: "PodDeletionCost WatchListClient"},
		{name: "CLI-28 the last one counts", args: "--feature-gates=PodDeletionCost=false,PodDeletionCost=true", on: "PodDeletionCost"},
		{name: "CLI-28 all alpha", args: "--feature-gates=AllAlpha=true,GenericWorkload=true", on: "ClientsAllowCBOR"},
		{name: "CLI-28 all beta but one", args: "--feature-gates=AllBeta=false,PodDeletionCost=true",
			on: "PodDeletionCost", off: "WatchListClient"},
		{name: "CLI-67 a locked gate may be set to what it is", args: "--feature-gates=LogarithmicScaleDown=true",
			on: "LogarithmicScaleDown"},
		{name: "CLI-28 nothing", args: "--feature-gates=", on: "PodDeletionCost"},
		{name: "CLI-29 as it was in 1.35", args: "--emulated-version=1.35", off: "AtomicFIFO StaleControllerConsistencyReplicaSet"},
		{name: "CLI-29 as it was in 1.36", args: "--emulated-version=1.36", on: "AtomicFIFO DRADeviceTaints",
			off: "MaxUnavailableStatefulSet HPAScaleToZero HPAGeneration NodeControllerLeaseCircuitBreaker GenericWorkload SELinuxMount"},
		{name: "CLI-29 as it is in 1.37",
			on:  "MaxUnavailableStatefulSet HPAScaleToZero HPAGeneration NodeControllerLeaseCircuitBreaker SELinuxMount",
			off: "GenericWorkload StatefulSetRecreateStrategy"},
		{name: "REG-66 depends on GenericWorkload", args: "--feature-gates=CompositePodGroup=true",
			err: "CompositePodGroup is enabled, but depends on features that are disabled: [GenericWorkload " +
				"TopologyAwareWorkloadScheduling]"},
		{name: "REG-66 depends on nothing any more", args: "--feature-gates=PodCertificateRequest=true", on: "PodCertificateRequest"},
		{name: "the other needed gate", args: "--emulated-version=1.34 --feature-gates=InOrderInformers=false", on: "InOrderInformers"},
		{name: "CLI-28 unknown", args: "--feature-gates=Foo=true", err: "unrecognized feature gate: Foo"},
		{name: "CLI-28 unknown with kube:", args: "--feature-gates=kube:Foo=true", err: "unrecognized feature gate: Foo"},
		{name: "CLI-28 locked, and set to what it is not", args: "--feature-gates=LogarithmicScaleDown=false", on: "LogarithmicScaleDown"},
		{name: "CLI-28 no value", args: "--feature-gates=PodDeletionCost", err: "missing bool value for PodDeletionCost"},
		{name: "CLI-28 bad value", args: "--feature-gates=PodDeletionCost=yes", err: `invalid argument "PodDeletionCost=yes" for "--feature-gates" flag: ` +
			`PodDeletionCost must be true or false, not "yes"`},
		{name: "CLI-28 another component", args: "--feature-gates=wardle:Foo=true", err: "component not registered: wardle"},
		{name: "CLI-69 depends on AtomicFIFO", args: "--feature-gates=AtomicFIFO=false",
			on: "AtomicFIFO StaleControllerConsistencyReplicaSet"},
		{name: "the last one counts for a needed gate, too", args: "--feature-gates=AtomicFIFO=false,kube:AtomicFIFO=true",
			on: "AtomicFIFO"},
		{name: "a needed gate without those that depend on it", args: "--feature-gates=AllBeta=false,kube:AtomicFIFO=false",
			off: "StaleControllerConsistencyReplicaSet"},
		{name: "a needed gate where it did not exist yet", args: "--emulated-version=1.35 --feature-gates=AtomicFIFO=false",
			off: "AtomicFIFO"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := configure(strings.Fields(test.args)...)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got  %v\nwant %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range strings.Fields(test.on) {
				if !c.Features.Enabled(featuregate.Feature(name)) {
					t.Errorf("%s is off", name)
				}
			}
			for _, name := range strings.Fields(test.off) {
				if c.Features.Enabled(featuregate.Feature(name)) {
					t.Errorf("%s is on", name)
				}
			}
		})
	}
}

// TestEveryGateIsAccepted gives each gate of five minor releases both values, whatever is emulated (CLI-28): none stops the process, and
// the log says of each that decides nothing why not, once. A gate that decides something may need others.
func TestEveryGateIsAccepted(t *testing.T) {
	text, err := os.ReadFile("testdata/gates.txt")
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]int{} // how many gates each minor release knows
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if fields[0] == "#" {
			continue
		}
		for _, minor := range fields[1:] {
			of[minor]++
		}
		for _, emulated := range []string{"1.34", "1.37"} {
			for _, value := range []string{"true", "false"} {
				tryGate(t, fields[0], value, emulated)
			}
		}
	}
	if diff := cmp.Diff(map[string]int{"1.34": 207, "1.35": 218, "1.36": 242, "1.37": 254, "1.38": 243}, of); diff != "" {
		t.Errorf("gates in testdata/gates.txt (- want, + got):\n%s", diff)
	}
}

// tryGate gives one gate.
func tryGate(t *testing.T, name, value, emulated string) {
	f, fs := newFeatures(), pflag.NewFlagSet("", pflag.ContinueOnError)
	f.addFlags(fs)
	err := fs.Parse([]string{"--feature-gates=" + name + "=" + value, "--emulated-version=kube=" + emulated})
	if err == nil {
		err = errors.Join(append([]error{f.Apply()}, f.validate()...)...)
	}
	switch given := name + "=" + value + " in " + emulated; {
	case err != nil && value == "false" && emulated == "1.34" && slices.Contains(alwaysOn, name): // see TestGatesWithoutEffect
	case err != nil && strings.Contains(err.Error(), "depends on features that are disabled"): // as in the original (REG-66)
	case err != nil:
		t.Errorf("%s: %v", given, err)
	case slices.Contains(obeyed, name) || slices.Contains(f.gate.withoutEffect(), name):
	case len(f.gate.remarks()) != 1:
		t.Errorf("%s: remarks %v", given, f.gate.remarks())
	}
}

// TestGatesOfSection5 checks those that the contract names.
func TestGatesOfSection5(t *testing.T) {
	all := newFeatures().gate.GetAll()
	for _, want := range []struct {
		fact, name string
		stage      featuregate.FeatureSpec
	}{
		{"CLI-65", "DeploymentReplicaSetTerminatingReplicas", featuregate.FeatureSpec{PreRelease: featuregate.Beta, Default: true}},
		{"CLI-66", "PodDeletionCost", featuregate.FeatureSpec{PreRelease: featuregate.Beta, Default: true}},
		{"CLI-67", "LogarithmicScaleDown", featuregate.FeatureSpec{PreRelease: featuregate.GA, Default: true, LockToDefault: true}},
		{"CLI-68", "PodObservedGenerationTracking",
			featuregate.FeatureSpec{PreRelease: featuregate.GA, Default: true, LockToDefault: true}},
		{"CLI-69", "StaleControllerConsistencyReplicaSet", featuregate.FeatureSpec{PreRelease: featuregate.Beta, Default: true}},
		{"CLI-70", "CoordinatedLeaderElection", featuregate.FeatureSpec{PreRelease: featuregate.Beta}},
		{"CLI-71", "ControllerManagerReleaseLeaderElectionLockOnExit", featuregate.FeatureSpec{PreRelease: featuregate.Alpha}},
		{"CLI-72", "WatchListClient", featuregate.FeatureSpec{PreRelease: featuregate.Beta, Default: true}},
		{"CLI-73", "ComponentFlagz", featuregate.FeatureSpec{PreRelease: featuregate.Beta, Default: true}},
		{"CLI-73", "ComponentStatusz", featuregate.FeatureSpec{PreRelease: featuregate.Beta, Default: true}},
		{"CLI-74", "ClientsAllowCBOR", featuregate.FeatureSpec{PreRelease: featuregate.Alpha}},
		{"CLI-74", "ClientsPreferCBOR", featuregate.FeatureSpec{PreRelease: featuregate.Alpha}},
		{"CLI-74", "ConcurrentWatchObjectDecode", featuregate.FeatureSpec{PreRelease: featuregate.Beta, Default: true}},
	} {
		got, ok := all[featuregate.Feature(want.name)]
		got.Version = nil
		if diff := cmp.Diff(want.stage, got); !ok || diff != "" {
			t.Errorf("%s %s (- want, + got):\n%s", want.fact, want.name, diff)
		}
	}
}

// libraryGates collects what client-go says of its own gates.
type libraryGates map[clientfeatures.Feature]clientfeatures.VersionedSpecs

func (g libraryGates) AddVersioned(in map[clientfeatures.Feature]clientfeatures.VersionedSpecs) error {
	maps.Copy(g, in)
	return nil
}

// TestGatesAreThoseOfTheLibraries notices when a newer library has other gates than features.txt.
func TestGatesAreThoseOfTheLibraries(t *testing.T) {
	specs, _ := features.Library()
	gate := featuregate.NewVersionedFeatureGate(version.MustParse("1.37"))
	if err := gate.AddVersioned(specs); err != nil {
		t.Fatal(err)
	}
	if err := logsapi.AddFeatureGates(gate); err != nil {
		t.Errorf("logging: %v", err)
	}
	if err := zpages.AddFeatureGates(gate); err != nil {
		t.Errorf("flagz and statusz: %v", err)
	}
	client := libraryGates{}
	if err := clientfeatures.AddVersionedFeaturesToExistingFeatureGates(client); err != nil {
		t.Fatal(err)
	}
	for name, stages := range client {
		got := specs[featuregate.Feature(name)]
		if len(got) != len(stages) {
			t.Errorf("%s: %v, client-go has %v", name, got, stages)
			continue
		}
		for i, want := range stages {
			if got[i].Default != want.Default || got[i].LockToDefault != want.LockToDefault ||
				string(got[i].PreRelease) != string(want.PreRelease) || !got[i].Version.EqualTo(want.Version) {
				t.Errorf("%s: %v, client-go has %v", name, got[i], want)
			}
		}
	}
}

// TestGatesReachClientGo makes sure that those of client-go are switched there (CLI-72).
func TestGatesReachClientGo(t *testing.T) {
	for _, want := range []bool{false, true} {
		mustConfigure(t, "--feature-gates=WatchListClient="+map[bool]string{true: "true", false: "false"}[want])
		if got := clientfeatures.FeatureGates().Enabled(clientfeatures.WatchListClient); got != want {
			t.Errorf("client-go thinks that it is %v, want %v", got, want)
		}
	}
}

// TestCachesTellTheirVersion makes sure that controllers work with whatever is emulated (CLI-29): they need the versions of the
// caches. Before 1.36 the gate that lets them tell it did not exist.
func TestCachesTellTheirVersion(t *testing.T) {
	for _, args := range []string{
		"--emulated-version=1.34", "--emulated-version=kube=1.35", "--emulated-version=1.36", "--emulated-version=1.37", "",
		"--feature-gates=AllBeta=false", "--emulated-version=1.34 --feature-gates=AllBeta=false",
	} {
		t.Run(args, func(t *testing.T) {
			mustConfigure(t, strings.Fields(args)...)
			informer := cache.NewSharedIndexInformer(&cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "5"}}, nil
				},
				WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
					if o.SendInitialEvents != nil {
						return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "", nil)
					}
					return watch.NewFake(), nil
				},
			}, &corev1.Pod{}, 0, nil)
			ctx, cancel := context.WithCancel(t.Context())
			var running wait.Group
			running.StartWithContext(ctx, informer.RunWithContext)
			defer func() { cancel(); running.Wait() }()
			if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				t.Fatal("not filled")
			}
			if got := informer.GetStore().LastStoreSyncResourceVersion(); got != "5" {
				t.Errorf("version %q", got)
			}
			var caches freshness.Caches
			caches.Add(corev1.SchemeGroupVersion.WithKind("Pod"), informer.GetStore())
			if err := caches.Usable(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestObeyedGatesExist keeps the list in the help true, as far as that can be.
func TestObeyedGatesExist(t *testing.T) {
	f := newFeatures()
	all := slices.Collect(maps.Keys(f.gate.GetAll()))
	for _, name := range obeyed {
		if !slices.Contains(all, featuregate.Feature(name)) {
			t.Errorf("there is no gate %s", name)
		}
	}
}

// TestGatesOfControllersAreInTheHelp: what a controller asks for is among those that the help says have an effect.
func TestGatesOfControllersAreInTheHelp(t *testing.T) {
	asked := regexp.MustCompile(`\bEnabled\("(\w+)"\)`)
	found := 0
	err := filepath.WalkDir("../../../../pkg/controllers", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range asked.FindAllSubmatch(text, -1) {
			found++
			if !slices.Contains(obeyed, string(match[1])) {
				t.Errorf("%s asks for %s, which the help does not list", path, match[1])
			}
		}
		return err
	})
	if err != nil || found < 5 {
		t.Errorf("%d questions found, %v", found, err)
	}
	for _, c := range controllers.Registry() {
		for _, gate := range c.Gates {
			if !slices.Contains(obeyed, gate) {
				t.Errorf("%s needs %s, which the help does not list", c.Name, gate)
			}
		}
	}
}

// TestGatesWithoutEffect: a gate that changes nothing is named in the log (CLI-28), and one that would have to change what controllers
// here always do is refused.
func TestGatesWithoutEffect(t *testing.T) {
	for _, test := range []struct {
		name, gates, emulated string
		logged, err           string
	}{
		{"none", "", "1.36", "", ""},
		{"one with an effect", "PodDeletionCost=false", "1.36", "", ""},
		{"one that nobody knows", "NoSuchGate=false", "1.36", "", "NoSuchGate"},
		{"of another controller", "WindowsCPUAndMemoryAffinity=false,PodDeletionCost=true", "1.36", `gates=["WindowsCPUAndMemoryAffinity"]`, ""},
		{"what is always done", "JobManagedBy=false", "1.34", "",
			"feature gate JobManagedBy cannot be switched off: this build always does"},
		{"what is always done, on", "JobManagedBy=true", "1.34", `gates=["JobManagedBy"]`, ""},
		{"what is always done, and nobody can switch off", "JobManagedBy=false", "1.36",
			`Feature gate without effect gate="JobManagedBy=false" because="it is always on since 1.35, and removed in 1.38" ` +
				`itMeans="Jobs with spec.managedBy are left to the controller that it names." ` +
				`advice="leave it out: what it asks for cannot be had any more"`, ""},
		{"CLI-28 gone, and what it was", "JobSuccessPolicy=true", "1.37",
			`gate="JobSuccessPolicy=true" because="it is always on since 1.33, and removed in 1.37" ` +
				`itMeans="Jobs may succeed by spec.successPolicy before all indexes have." advice="leave it out"`, ""},
		{"CLI-28 gone, and never more than alpha", "GangScheduling=true", "1.37",
			`gate="GangScheduling=true" because="removed in 1.37"`, ""},
		{"CLI-28 of 1.34 only", "CronJobsScheduledAnnotation=false", "1.37", `because="it is always on since 1.32, and removed in 1.35"`, ""},
		{"CLI-28 evictions by taints", "SeparateTaintEvictionController=false", "1.37",
			`itMeans="Evictions by taints are a controller of their own, which --controllers can leave off."`, ""},
		{"CLI-28 of 1.38 only", "ClientsAllowConnectionPool=false", "1.37",
			`because="it begins in 1.38, and features here are those of 1.37"`, ""},
		{"CLI-28 locked in 1.38", "HPAGeneration=false", "1.37", `because="it is always on since 1.38"`, ""},
		{"CLI-28 of 1.37 only", "EtcdRangeStream=false,KubeProxyIPVS=true", "1.37", `gates=["EtcdRangeStream","KubeProxyIPVS"]`, ""},
		{"CLI-28 locked in 1.37", "HPAConfigurableTolerance=false", "1.37", `because="it is always on since 1.37"`, ""},
		{"CLI-29 not locked in 1.36", "HPAConfigurableTolerance=false", "1.36", "", ""},
		{"CLI-29 not there in 1.36", "EtcdRangeStream=true", "1.36", `because="it begins in 1.37, and features here are those of 1.36"`, ""},
		{"no controller can work without it", "AtomicFIFO=false", "1.37", `because="it is always on here: controllers need it`, ""},
		{"named once, however often it is given", "JobSuccessPolicy=true,JobSuccessPolicy=false", "1.37",
			`gate="JobSuccessPolicy=false"`, ""},
		{"services", "PreferSameTrafficDistribution=false", "1.34", "", "cannot be switched off: this build"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, err := parse("--feature-gates="+test.gates, "--emulated-version=kube="+test.emulated)
			if err == nil {
				err = o.Features.Apply()
			}
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("got %v, want %s", err, test.err)
			}
			log := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			if err != nil {
				return
			}
			if err := o.Features.Warn(log); err != nil {
				t.Fatal(err)
			}
			text := log.GetSink().(ktesting.Underlier).GetBuffer().String()
			said := strings.Count(text, "without effect")
			if said > 1 || (said == 1) != (test.logged != "") || !strings.Contains(text, test.logged) {
				t.Errorf("logged %q, want %s", text, test.logged)
			}
		})
	}
}

func FuzzFeatureGates(f *testing.F) {
	for _, seed := range []string{"PodDeletionCost=false", "kube:AllAlpha=true,AllBeta=false", "=", ":", "a:b:c=1", ",", "a=b=c", "kube:",
		"\xff"} {
		f.Add(seed, "kube=1.35")
	}
	f.Add("", "0.0")
	f.Fuzz(func(t *testing.T, gates, emulated string) {
		c, err := configure("--feature-gates="+gates, "--emulated-version="+emulated)
		if err == nil && c.Features == nil {
			t.Error("neither gates nor an error")
		}
	})
}
