// Package suite has one entry for each controller of the registry: what the suites need to know of it, if they know the kinds that it
// works on (see CONTRIBUTING). The suites loop over the entries, so a controller that gets an entry is in the random workload, in the
// crash tests, among the malformed objects, the mutants and the write budgets.
package suite

import (
	"cmp"
	"slices"
	"strings"

	"github.com/standalone-kcm/controller-manager/test/simulation/workload"
	"github.com/standalone-kcm/controller-manager/test/suite/floor"
)

// Entry is what the suites know of one controller.
type Entry struct {
	Controller string // its name in the registry

	// For scripts, such as those of the random workload in test/simulation.

	// Operations are the commands of scripts that concern its objects, by their first word.
	Operations map[string]Operation
	// Begin adds to a random script what makes an app, a name with which the label app of its pods begins. It may be nil.
	Begin func(g *workload.Generator, app string)
	// Choices are what users do at random.
	Choices []workload.Choice
	// NoChoices says why there are none.
	NoChoices string
	// Alone says why only one manager of a control plane may run the controller at a time: its objects are of the whole cluster, and each
	// manager would write those of all. Empty for all others.
	Alone string
	// Needs are the controllers without which its objects are not what they should be.
	Needs []string
	// Settled returns what is wrong when the controller has nothing left to do and nothing hinders it, on any control plane. It may be
	// nil if the oracles L1 and L3 in test/oracle say it.
	Settled func(*View) []string

	Scenarios []Scenario // for test/simulation, and for the crash tests in test/chaos
	// NoScenarios says why there are none.
	NoScenarios string
	// Malformed are, for test/integration, objects that no server accepts today. An old version, or somebody with access to etcd,
	// may have stored them all the same, and then every watch brings them. The keys are those of etcd without /registry/ and the
	// namespace: "services/specs/NAME", "controllers/NAME" for a ReplicationController, for most kinds "RESOURCE/NAME". ${META}
	// stands for namespace, name and uid. An object that says its namespace before ${META} belongs there, and not into that of the test.
	Malformed map[string]string
	Mutants   []Mutant // for test/mutation
	Budgets   []Budget // for test/simulation: the fewest writes that pieces of work take
}

// Entries returns the entries of all controllers. To add one: a file and a line.
func Entries() []Entry {
	return []Entry{
		attachDetachEntry(),
		clusterRoleAggregationEntry(),
		bootstrapSignerEntry(),
		cronJobEntry(),
		csrApprovingEntry(),
		csrCleanerEntry(),
		csrSigningEntry(),
		daemonSetEntry(),
		deploymentEntry(),
		deviceTaintEvictionEntry(),
		disruptionEntry(),
		endpointEntry(),
		endpointSliceEntry(),
		endpointSliceMirroringEntry(),
		garbageCollectorEntry(),
		autoscalerEntry(),
		jobEntry(),
		legacyTokenCleanerEntry(),
		namespaceEntry(),
		claimProtectionEntry(),
		podCertificateRequestCleanerEntry(),
		podGroupProtectionEntry(),
		poolStatusEntry(),
		podGCEntry(),
		replicaSetEntry(),
		replicationControllerEntry(),
		resourceClaimEntry(),
		resourceQuotaEntry(),
		rootCAPublisherEntry(),
		trustBundlePublisherEntry(),
		serviceAccountEntry(),
		serviceAccountTokenEntry(),
		serviceCIDREntry(),
		statefulSetEntry(),
		nodeIPAMEntry(),
		nodeLifecycleEntry(),
		taintEvictionEntry(),
		nodeTTLEntry(),
		tokenCleanerEntry(),
		ttlAfterFinishedEntry(),
		volumeProtectionEntry(),
		ephemeralVolumeEntry(),
		volumeExpanderEntry(),
		classProtectionEntry(),
		volumeBinderEntry(),
		storageVersionMigratorEntry(),
		storageVersionGCEntry(),
		admissionPolicyEntry(),
		selinuxWarningEntry(),
	}
}

// ControllersFlag returns the flag that has a manager run the controllers of all entries, and no others that it may know.
func ControllersFlag() string { return controllersFlag(func(string) bool { return true }) }

// Sharing reports whether one of several managers of a control plane runs a controller. Of those that must be alone it has the one that is
// named, which may be empty.
func Sharing(alone string) func(controller string) bool {
	return func(controller string) bool {
		return controller == alone || !slices.ContainsFunc(Entries(), func(e Entry) bool { return e.Controller == controller && e.Alone != "" })
	}
}

// SharingFlag returns the flag of such a manager.
func SharingFlag(alone string) string { return controllersFlag(Sharing(alone)) }

func controllersFlag(runs func(controller string) bool) string {
	var names []string
	for _, e := range Entries() {
		if runs(e.Controller) {
			names = append(names, e.Controller)
		}
	}
	return "--controllers=" + strings.Join(names, ",")
}

// GatesFlag is the flag that opens the feature gates that are off by default and that controllers of entries need.
const GatesFlag = "--feature-gates=DRAResourcePoolStatus=true,DRAWorkloadResourceClaims=true,GenericWorkload=true," +
	"StorageVersionAPI=true,WorkloadWithJob=true"

// Scenario is a piece of work for a manager that ends in the same state each time.
type Scenario struct {
	Name    string
	Prepare func(*User) // before the manager starts; may be nil
	Play    func(*User)
}

// Mutant is a known mistake. It is made by an edit of the source text.
type Mutant struct {
	Name  string
	Edits []Edit // more than one where two parts of the code would prevent the mistake
	// Script is run by test/simulation; it is one in which the mistake shows.
	Script string
	Oracle string // that must find it; others may find it as well. SettledOracle stands for Entry.Settled.
	// Around is the controller with which random scripts stay that look for it. Mutants of an entry need not say it.
	Around string
}

// SettledOracle is the name by which violations are reported that Entry.Settled finds.
const SettledOracle = "Settled"

// Edit replaces a text, which must be in the file exactly once, and in the body of a function whose parameters have names.
type Edit struct {
	File     string // below the root of the module
	Old, New string
}

// Budget is a piece of work and the fewest writes that do it.
type Budget struct {
	Name    string
	Prepare func(*User) // not counted; may be nil
	Do      func(*User) // waits until the work is done
	Floor   floor.Writes
	Flags   []string // of a manager that does this piece of work only; none for one that does all of them
	// MostPods and LeastAvailable bound the pods at every moment, where the work must keep to limits; zero for no bound.
	MostPods, LeastAvailable int
}

// withoutElection is the beginning of scripts that need no election.
const withoutElection = `
			set elect 0`

// Mix returns what random scripts are made of.
func Mix() workload.Mix { return MixOf(Entries()...) }

// MixOf returns what random scripts are made of that concern some controllers.
func MixOf(entries ...Entry) (m workload.Mix) {
	for _, e := range entries {
		if e.Begin != nil {
			m.Begin = append(m.Begin, e.Begin)
		}
		m.Choices = append(m.Choices, e.Choices...)
	}
	return m
}

// Mutants returns the mutants of the runtime and of all entries.
func Mutants() []Mutant {
	all := slices.Clone(RuntimeMutants)
	for i := range all {
		all[i].Around = "deployment-controller" // which has most to do with ReplicaSets and pods
	}
	for _, e := range Entries() {
		for _, m := range e.Mutants {
			m.Around = cmp.Or(m.Around, e.Controller)
			all = append(all, m)
		}
	}
	return all
}
