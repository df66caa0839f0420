package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options say what an oracle cannot know from the history. The zero value is good for a manager with default flags.
type Options struct {
	// Manager tells the requests of the managers under test from all others. By default they are those of
	// kube-controller-manager's user and of the service accounts of the controllers.
	Manager func(Request) bool
	// Identity names the manager process that made a request, see S13. By default it is what the user agent has before
	// the first slash. ByCredential is an alternative.
	Identity func(Request) string
	// Lease is namespace and name of the managers' lease, by default kube-system/kube-controller-manager. A history
	// without it is one of managers without election.
	Lease string

	// Lag is how much later than a server a manager may know and act. By default 10 s.
	Lag time.Duration
	// EndpointsLag is how long an outdated ready address may stay in Endpoints. By default it is Lag.
	EndpointsLag time.Duration
	// Quiet is how long after the last change by others a manager must have come to rest. By default 60 s.
	Quiet time.Duration
	// Slack is how exact the times of the history are. By default 1 s.
	Slack time.Duration
	// Outages are times in which managers could not see or act, besides those in which nobody holds the lease.
	Outages []Outage
	// Settled says that before the history's end there was time enough to converge, with neither changes nor faults.
	Settled bool
	// Unhindered says that at the end neither a quota nor anything else refuses what the manager asks for, and no pods fail:
	// then nothing may be left undone for such a reason.
	Unhindered bool
	// End is when the history ended, if that was later than its last revision.
	End time.Time
	// Surge says what S5 counts.
	Surge Surge
	// Slices says that a manager runs the endpointslice controller, so that slices are missed also if it never wrote one (S15).
	Slices bool
	// Binds says that a manager runs the controller that binds claims to volumes (S35).
	Binds bool

	// OrphanQuarantine is how long a node must be absent before its pods are orphans. By default 40 s.
	OrphanQuarantine time.Duration
	// NodeGrace and NodeStartupGrace are the flags node-monitor-grace-period and node-startup-grace-period. By default 50 s and 60 s.
	NodeGrace, NodeStartupGrace time.Duration
	// TerminatedPodThreshold is the flag terminated-pod-gc-threshold. By default 12500; negative for none.
	TerminatedPodThreshold int
	// CollectsMore reports whether a rule beyond the contract's allows to remove a terminated pod; nil for no such rule.
	CollectsMore func(pod Object, when time.Time) bool

	// Most is how many violations are reported of each oracle. By default 20.
	Most int
}

// Surge says what may not exceed replicas + maxSurge.
type Surge int

// What S5 counts: at each raised size the sizes (the contract's own, DEP-41), and, with the other two, at each created pod
// also the active pods, or all pods that are not finished, terminating ones too.
const (
	SurgeSizes Surge = iota
	SurgeActive
	SurgeAll
)

// accounts are the service accounts of the controllers of kube-controller-manager (REG-1..54). The oracles share no code with what
// they judge, so they are named here.
var accounts = strings.Fields(`
	attachdetach-controller bootstrap-signer certificate-controller clusterrole-aggregation-controller
	cronjob-controller daemon-set-controller deployment-controller device-taint-eviction-controller
	disruption-controller endpoint-controller endpointslice-controller endpointslicemirroring-controller
	ephemeral-volume-controller evictionrequest-controller expand-controller generic-garbage-collector horizontal-pod-autoscaler imperative-eviction-responder-controller
	job-controller kube-apiserver-serving-clustertrustbundle-publisher legacy-service-account-token-cleaner
	namespace-controller node-controller persistent-volume-binder pod-garbage-collector
	podcertificaterequestcleaner podgroup-protection-controller pv-protection-controller
	pvc-protection-controller replicaset-controller replication-controller resource-claim-controller
	resourcepoolstatusrequest-controller resourcequota-controller root-ca-cert-publisher route-controller
	selinux-warning-controller service-account-controller service-cidrs-controller service-controller
	statefulset-controller storage-version-garbage-collector storage-version-migrator-controller token-cleaner
	ttl-after-finished-controller ttl-controller validatingadmissionpolicy-status-controller
	volumeattributesclass-protection-controller
`)

// DefaultManager is Options.Manager if none is given.
func DefaultManager(r Request) bool {
	if account, ok := strings.CutPrefix(r.User, "system:serviceaccount:kube-system:"); ok {
		return slices.Contains(accounts, account)
	}
	return r.User == "system:kube-controller-manager"
}

// DefaultIdentity is Options.Identity if none is given.
func DefaultIdentity(r Request) string {
	program, _, _ := strings.Cut(r.UserAgent, "/")
	return program
}

func (o Options) withDefaults() Options {
	if o.Manager == nil {
		o.Manager = DefaultManager
	}
	if o.Identity == nil {
		o.Identity = DefaultIdentity
	}
	o.Lease = cmp.Or(o.Lease, "kube-system/kube-controller-manager")
	o.Lag = cmp.Or(o.Lag, 10*time.Second)
	o.EndpointsLag = cmp.Or(o.EndpointsLag, o.Lag)
	o.Quiet = cmp.Or(o.Quiet, time.Minute)
	o.Slack = cmp.Or(o.Slack, time.Second)
	o.OrphanQuarantine = cmp.Or(o.OrphanQuarantine, 40*time.Second)
	o.NodeGrace, o.NodeStartupGrace = cmp.Or(o.NodeGrace, 50*time.Second), cmp.Or(o.NodeStartupGrace, time.Minute)
	o.TerminatedPodThreshold = cmp.Or(o.TerminatedPodThreshold, 12500)
	o.Most = cmp.Or(o.Most, 20)
	return o
}

// Violation is a broken rule.
type Violation struct {
	Oracle  string // such as S5
	Kind    string
	Object  string // namespace/name
	Version int64  // the revision at which it happened; 0 for the end of the history
	When    time.Time
	Message string
	Around  []string // summaries of the revisions around it, of the objects that have to do with it
}

// String is the violation with the revisions around it, one on each line.
func (v Violation) String() string {
	return fmt.Sprintf("%s %s %s at version %d: %s%s", v.Oracle, v.Kind, v.Object, v.Version, v.Message,
		strings.Join(append([]string{""}, v.Around...), "\n    "))
}

// Oracle is a rule.
type Oracle struct {
	ID    string
	Claim string // what holds
	start func(*judge) hooks
}

// hooks are what an oracle does as the history is replayed.
type hooks struct {
	before func(*revision) // the world is as it was before the revision
	after  func(*revision) // the world is as it is after it
	end    func()
}

// All are the oracles that Check can run, S1 to S40, S41, L1 and L3.
func All() []Oracle {
	return []Oracle{
		NoPodBeyondReplicas(), NoDeletionOfNeededPods(), DeletionsHitTheirPod(), OneLiveController(),
		NoSurgeBeyondMaxSurge(), DeletionsLeaveEnoughAvailable(), OneReplicaSetPerTemplate(), RecreateWaitsForOldPods(),
		HistoryIsKept(), StatusesAreConsistent(), EndpointsAreReadyPods(), PodGCFollowsItsRules(), NoWriteWithoutLease(),
		QuietAtRest(), SlicesHaveEachPodOnce(), OnlyGarbageIsCollected(), NamespacesEndEmpty(), JobsCountEachPodOnce(),
		NoPodBeyondParallelism(), OneDaemonPodPerNode(), DaemonSetsStayAvailable(), StatefulSetsKeepOrder(),
		ClaimsFollowRetention(), EvictionsRespectBudgets(), QuotasHold(), OneRangePerNode(), NoEvictionBeforeItsTime(),
		NoUnknownBeforeTheGracePeriod(), StorageIsProtectedWhileUsed(), OneNodePerExclusiveVolume(), NoDetachWhileUsed(),
		OneClaimPerVolume(), NoReleaseWhileTheClaimLives(), BindingsLast(), WhatCanBeBoundIsBound(), RangesStayWhileUsed(),
		DevicesFollowPods(), PodCertificateRequestsStayForATime(), OnlyTheObsoleteGoes(),
		NoEvictionFromGoodDevices(), PodGroupsStayWhileTheirPodsRun(), JobsGroupTheirPods(), EndsAtAFixpoint(), DeploymentsComplete(),
	}
}

// Safety are the oracles that need not wait for the end.
func Safety() []Oracle {
	return slices.DeleteFunc(All(), func(o Oracle) bool { return !strings.HasPrefix(o.ID, "S") })
}

// judge is an oracle at work: it sees the world and reports.
type judge struct {
	*world
	oracle string
	found  []Violation
	more   int
	count  Count
}

// Count says on how many occasions an oracle had to ask whether its rule was kept. Each occasion counts once.
type Count struct {
	Judged int // what happened was compared with the rule, and no exemption made a difference
	// an exemption that the oracle names decided: the rule was not asked, or is kept only because of a bound that the exemption widens
	Excused int
}

// Counts are the counts of oracles, by ID.
type Counts map[string]Count

// Add adds other counts.
func (c Counts) Add(other Counts) {
	for id, n := range other {
		c[id] = Count{c[id].Judged + n.Judged, c[id].Excused + n.Excused}
	}
}

// judges notes that something was judged, or that it was excused.
func (j *judge) judges(excused bool) {
	if excused {
		j.count.Excused++
	} else {
		j.count.Judged++
	}
}

// Check replays the history once and returns what the oracles found, oracle by oracle, in order of versions. It changes
// nothing in the history and may run beside others.
func Check(h *History, o Options, oracles ...Oracle) []Violation {
	found, _ := CheckAndCount(h, o, oracles...)
	return found
}

// CheckAndCount does the same, and returns how often each oracle had something to judge. A rule that was never judged has not
// been tested, and is not kept for that reason.
func CheckAndCount(h *History, o Options, oracles ...Oracle) ([]Violation, Counts) {
	w := newWorld(h, o.withDefaults())
	judges := make([]*judge, len(oracles))
	all := make([]hooks, len(oracles))
	for i, oracle := range oracles {
		judges[i] = &judge{world: w, oracle: oracle.ID}
		all[i] = oracle.start(judges[i])
	}
	w.replay(func(r *revision) {
		for _, h := range all {
			if h.before != nil {
				h.before(r)
			}
		}
	}, func(r *revision) {
		for _, h := range all {
			if h.after != nil {
				h.after(r)
			}
		}
	})
	if w.o.End.After(w.now) {
		w.now = w.o.End
	}
	for _, h := range all {
		if h.end != nil {
			h.end()
		}
	}
	var found []Violation
	counts := Counts{}
	for _, j := range judges {
		counts[j.oracle] = j.count
		if last := len(j.found) - 1; j.more > 0 {
			j.found[last].Message += fmt.Sprintf(" (and %d more of %s)", j.more, j.oracle)
		}
		found = append(found, j.found...)
	}
	return found, counts
}

// report notes a violation at a revision. The revisions of the related objects, each kind/namespace/name, are shown too.
func (j *judge) report(r *revision, related []string, format string, args ...any) {
	j.note(Violation{Oracle: j.oracle, Kind: r.kind, Object: r.key, Version: r.Version, When: r.When,
		Message: fmt.Sprintf(format, args...)}, append([]string{r.kind + "/" + r.key}, related...))
}

// reportEnd notes a violation that no single revision made.
func (j *judge) reportEnd(kind, key string, related []string, format string, args ...any) {
	j.note(Violation{Oracle: j.oracle, Kind: kind, Object: key, When: j.now,
		Message: fmt.Sprintf(format, args...)}, append([]string{kind + "/" + key}, related...))
}

func (j *judge) note(v Violation, objects []string) {
	if len(j.found) >= j.o.Most {
		j.more++
		return
	}
	v.Around = j.around(v.Version, objects)
	j.found = append(j.found, v)
}
