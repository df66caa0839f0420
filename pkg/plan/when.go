package plan

import "time"

// When says when a report is written: when it has stayed the same for Quiet, or has waited for Longest, so that a
// newer one may replace it. The zero When writes at once. All times of reports are in this file;
// docs/decisions/0003 says where they come from.
//
//	Now            failures, changes of availability, and the last report before an object comes to rest
//	Soon           what users wait for, when the next reconcile may have more to say
//	Progress       all else about pods: small work does not wait, and large work reports once a second
//	SlowProgress   the same where reports would follow one another: somebody else reports on the
//	               same pods, or they come one by one
//	OncePerSecond  progress of Jobs
//	NextTurn       what CronJobs have started: Jobs come before statuses
//	Shortly        what of a CronJob's Jobs has ended
type When struct {
	Quiet, Longest time.Duration
	// NextTurn: it is written when the key has its next turn, which is after those of all keys that wait now.
	NextTurn bool
}

const (
	soon       = 100 * time.Millisecond
	leastQuiet = 50 * time.Millisecond
	// pod: the more there are, the longer are the gaps between their changes on a slow machine
	quietForEach = 5 * time.Millisecond
	slowQuiet    = 200 * time.Millisecond
	longestWait  = time.Second
	// a little more than a second, so that no more than one write a second is made, those at beginning and end included
	jobProgress = 1200 * time.Millisecond
)

// Now writes a report at once.
func Now() When { return When{} }

// Soon writes it in a moment.
func Soon() When { return When{Quiet: soon, Longest: soon} }

// Progress is for a report about so many pods.
func Progress(pods int64) When {
	pods = min(pods, int64(longestWait/quietForEach))
	return When{Quiet: max(leastQuiet, time.Duration(pods)*quietForEach), Longest: longestWait}
}

// SlowProgress is likewise for so many pods.
func SlowProgress(pods int64) When {
	w := Progress(pods)
	w.Quiet = max(w.Quiet, slowQuiet)
	return w
}

// OncePerSecond writes a report no more often than that.
func OncePerSecond() When { return When{Quiet: jobProgress, Longest: jobProgress} }

// ReportWhen says when a report is written about an object with many parts, such as pods. It is written at once if
// it has news that users wait for, or if it is the last one before the object comes to rest, because nothing is
// moving. Mere progress waits until later. So does what is reported when the plan has written something: the next
// reconcile follows at once, and has more to report.
func (o Outcome) ReportWhen(news, moving bool, later When) When {
	if wrote := o.Wrote() && o.Err == nil; !wrote && (news || !moving) {
		return Now()
	}
	return later
}

// NextTurn has keys that wait go first.
func NextTurn() When { return When{NextTurn: true} }

// Shortly writes a report when nothing has changed for a moment.
func Shortly() When { return When{Quiet: soon, Longest: longestWait} }
