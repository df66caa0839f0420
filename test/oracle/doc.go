// Package oracle judges controller managers. It reads a history of a cluster, that is every revision of the objects that the
// controllers deployment, daemonset, replicaset, endpoint, endpointslice, podgc, garbagecollector, namespace, job, statefulset and
// disruption work on, and, where there is one, the API server's audit log, and reports each revision at which the manager broke a rule.
// It looks at all revisions, not at samples. It knows no manager in particular and shares no code with ours, so that a mistake in our
// code cannot be one of the oracles, too.
//
// # Histories
//
// A History is plain data: Revisions (what a watch of each kind from the beginning would say) and Requests (from the audit
// log). Package record makes one from a live API server; Save and Load keep one in a file; a simulation appends to the two
// lists itself; a Script makes one by hand:
//
//	h := &oracle.History{}
//	h.Append(oracle.Revision{Version: 7, Type: oracle.Added, Object: pod, When: now})
//	h.Request(oracle.Request{Verb: "create", Resource: "pods", Version: 7, Code: 201, User: "...", UserAgent: "..."})
//	for _, v := range oracle.Check(h, oracle.Options{}, oracle.All()...) {
//		fmt.Println(v)
//	}
//
// Cover says how much of a history was recognised as the manager's. A test that expects no violations asks it: what the history does not
// show, no oracle can judge.
//
// Only Version, Type and Object are needed in a Revision. Objects are not copied and must not be changed afterwards.
// Versions are those of the server (one count for all kinds); the order of the list does not matter.
//
// # Who did it
//
// Most rules bind the manager only: users may do as they like, and pods fail by themselves. A revision is the manager's if
// a Request of the manager (Options.Manager) has its version, or, for a deletion that is answered without one, its uid. All
// other revisions are the environment's. If a history has no Requests at all, then every revision of a kind that
// the manager could have made is held to be its, unless it is marked as Injected: creations and deletions of pods that have
// a controller, changes of owner references, of ReplicaSets, of Endpoints and of statuses of Deployments. A change of a
// Deployment's spec is always the environment's, but for one that a Request shows to be the manager's.
//
// # What is fair
//
// A manager sees the world through caches. So an oracle asks at the revision where something gets worse (a pod is
// created, a size raised), and allows for
//
//   - all generations of the spec since the one that the status says was observed when the step was decided;
//   - what the environment did within Options.Lag before: a pod that failed a moment ago is not held against the manager
//     that deletes another;
//   - Options.Outages, times in which a manager could not see or write objects of a kind. Such time does not count as lag of
//     what that manager may not have known. Rules that anybody must have carried out in time allow for all outages.
//
// An excuse is used up when the manager has shown that it knows, and an exemption ends with its reason.
//
// # What was judged
//
// CheckAndCount says on how many occasions each oracle asked its question: when a pod is created, a status written, or, for what must
// be so at all times, when it may have changed. Excused means the same in all oracles. It is an occasion on which an exemption decided
// that the oracle names: the question was not asked, or the answer is good only because of a bound that the lag widens. All other
// occasions were judged. An oracle that had nothing to judge has proved nothing.
//
// # Oracles
//
// What they print begins with their ids, of which each has a function of this package: grep -rn "func NAME" test/oracle.
//
//	S1   NoPodBeyondReplicas: a ReplicaSet's active pods never exceed its replicas by its own creations
//	S2   NoDeletionOfNeededPods: a ReplicaSet deletes no active pod while it has no more than its replicas
//	S3   DeletionsHitTheirPod: each deletion of a pod hits the pod that was meant: a precondition, and an owner
//	S4   OneLiveController: at most one controller; owners are live, in the same namespace, and not being deleted when they adopt
//	S5   NoSurgeBeyondMaxSurge: sizes of a Deployment's ReplicaSets never exceed replicas + maxSurge by raising one
//	S6   DeletionsLeaveEnoughAvailable: deletions leave replicas - maxUnavailable pods available
//	S7   OneReplicaSetPerTemplate: one ReplicaSet for each Deployment and template; collisionCount counts collisions
//	S8   RecreateWaitsForOldPods: Recreate: no new pod before the last old one is gone
//	S9   HistoryIsKept: revisions never decrease; history is kept as asked, and only old and empty ReplicaSets are removed
//	S10  StatusesAreConsistent: observedGeneration is monotonic and at most generation; available <= ready <= replicas
//	S11  EndpointsAreReadyPods: ready addresses are ready pods within a lag; at most 1000; the annotation says if some are left out
//	S12  PodGCFollowsItsRules: podgc removes only what one of its rules names, in the right order
//	S13  NoWriteWithoutLease: no write by a manager that does not hold the lease
//	S14  QuietAtRest: nothing of any kind is written after a time of quiet; no update without a change
//	S15  SlicesHaveEachPodOnce: endpoint slices: each pod in one slice of a family, ready if it is, none missing, within a lag;
//	     slices of others untouched
//	S16  OnlyGarbageIsCollected: the garbage collector deletes only what no owner holds, once; owners that wait go after their
//	     dependents; orphans stay
//	S17  NamespacesEndEmpty: a namespace is released late enough, empty, and after a round that has listed everything; nothing is
//	     stored in it afterwards
//	S18  JobsCountEachPodOnce: a Job counts each pod that ends once; the pod keeps its finalizer until then
//	S19  NoPodBeyondParallelism: a Job creates no pod beyond its parallelism, and none for an index that has one or is completed
//	S20  OneDaemonPodPerNode: a DaemonSet creates no pod on a node that has one, but for one beside another with a surge
//	S21  DaemonSetsStayAvailable: a rolling update of a DaemonSet leaves as many nodes with an available pod as its strategy asks for
//	S22  StatefulSetsKeepOrder: a StatefulSet has one pod for each identity, creates and deletes them in order, and updates no more
//	     than maxUnavailable
//	S23  ClaimsFollowRetention: claims get the owners that the retention policy names, and none is deleted otherwise
//	S24  EvictionsRespectBudgets: no eviction leaves a budget with fewer healthy pods than it asks for
//	S25  QuotasHold: no object is admitted above the hard limit of a quota, of numbers, resources and storage
//	S26  OneRangePerNode: no manager gives a node a range of addresses that another node has, or another range than it has
//	S27  NoEvictionBeforeItsTime: no pod is marked, deleted or evicted for the taints of its node before its time is over
//	S28  NoUnknownBeforeTheGracePeriod: no node is declared Unknown before it has been silent for its grace period
//	S29  StorageIsProtectedWhileUsed: claims of ephemeral volumes belong to their pods; classes, claims and volumes lose their
//	     finalizer when nobody uses them
//	S30  OneNodePerExclusiveVolume: no volume for one node at a time has VolumeAttachments of two nodes by a manager's creation
//	S31  NoDetachWhileUsed: no volume is detached that its node, which lives, lists or has in use
//	S32  OneClaimPerVolume: a volume has one claim, and a claim one volume
//	S33  NoReleaseWhileTheClaimLives: no volume is released or deleted while its claim lives
//	S34  BindingsLast: a claim and its volume stay bound to each other
//	S35  WhatCanBeBoundIsBound: at rest, what can be bound is bound
//	S36  RangesStayWhileUsed: ServiceCIDRs stay while they alone hold an address of a Service
//	S37  DevicesFollowPods: claims for devices are made once, go with their pods and not before, and are reserved for pods that may run
//	S38  PodCertificateRequestsStayForATime: requests for the certificates of pods stay for a quarter of an hour
//	S39  OnlyTheObsoleteGoes: trust bundles and entries of StorageVersions go only when others replace them, or their API server is gone
//	S40  NoEvictionFromGoodDevices: no pod is marked or deleted for the taints of its devices before its time is over
//	S41  PodGroupsStayWhileTheirPodsRun: a PodGroup stays while a pod of it may run
//	S43  JobsGroupTheirPods: pods of a Job with a PodGroup are in it, and a gang is as large as the Job says
//	L1   EndsAtAFixpoint: the end is a fixpoint                        (Options.Settled)
//	L2   the end equals that of another run           (Diff)
//	L3   DeploymentsComplete: each Deployment is complete, paused, or says why not   (Options.Settled)
//	L4   recovery after an outage within a bound      (Recovery)
//	L5   takeover within a bound                      (Takeover)
//
// S1, S2, S5 to S8 and L1 are the theorems of Anvil and the gaps that Sieve's bugs fell through, as invariants of histories;
// the arithmetic is that of the contract (RS-*, DEP-*, EP-*, PGC-*, LE-* in the doc comments).
package oracle
