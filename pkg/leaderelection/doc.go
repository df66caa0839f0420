// Package leaderelection sees to it that of several managers one works: the holder of a Lease (LE-*).
//
// An embedder sets LeaderElect and LeaderElection of manager.Options, and needs nothing else of this package. [New]
// makes an elector, whose Run competes for the lease and calls a function while it is held.
//
// It builds on client-go's election, whose algorithm, log lines and metrics it keeps, and adds what makes it safe to
// stop and to lose:
//
//   - on a graceful end the lease is renewed until the work has really ended, and only then released (LE-16, LE-17);
//   - whether the lease is still ours is decided by the local clock, without a request, and when it is not, the work is
//     ended even if a renewal hangs (LE-14). See [Elector.Held];
//   - a manager that has lost the lease can stay and compete again, once its work has ended ([Standby]).
//
// The metrics leader_election_master_status and leader_election_slowpath_total (LE-23) are client-go's. They appear
// once the main program imports k8s.io/component-base/metrics/prometheus/clientgo/leaderelection (or its parent,
// which adds those of requests and queues), before the first Elector runs.
package leaderelection
