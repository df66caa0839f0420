package podgc

import "fmt"

// small clusters had fewer nodes than this a window ago, and have no circuit breaker.
const small = 5

// breaker is a circuit breaker: it says whether the deletion of orphans waits.
type breaker struct {
	Kind breakerKind
	Why  string
}

type breakerKind int

const (
	closed          breakerKind = iota
	tooManyVanished             // more nodes are lost than an ordinary day takes
	notProved                   // the cache may not show the nodes as they are
)

// small reports whether the cluster is too small to have a circuit breaker.
func (c nodeCounts) small() bool { return c.Known < small }

// checkShare opens the breaker when more than the given share of the nodes known a window ago has vanished.
func (c nodeCounts) checkShare(limit float64) breaker {
	if limit <= 0 || c.small() || float64(c.Vanished) <= limit*float64(c.Known) {
		return breaker{}
	}
	return breaker{tooManyVanished, fmt.Sprintf("%d of the %d nodes known %s ago have vanished, more than --pod-gc-orphan-brake=%v allows",
		c.Vanished, c.Known, window, limit)}
}

// checkNames opens the breaker unless the cache shows exactly the nodes that a live list names. The share is counted
// from the cache, and is worth nothing when that lags behind.
func checkNames(live, cached []string) breaker {
	exists := make(map[string]bool, len(live))
	for _, name := range live {
		exists[name] = true
	}
	known := 0
	for _, name := range cached {
		if exists[name] {
			known++
		}
	}
	more, fewer := len(cached)-known, len(exists)-known
	if more == 0 && fewer == 0 {
		return breaker{}
	}
	return breaker{notProved, fmt.Sprintf("the cache of nodes lags behind the server: it has %d nodes that are gone, and lacks %d", more, fewer)}
}
