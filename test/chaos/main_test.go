// Package chaos runs the real binary, as a process, on a real control plane, and breaks what is between them and around
// them: see package proxy for the faults, and package oracle for what must hold all the same.
//
// The work is that of the scenarios of all entries of test/suite. Without flags it is a small set of runs: each scenario is once
// killed and meets two faults, and some meet an API server that shows the past. CHAOS_FULL=1 in the environment is for all of it:
// crashes at every write, all faults beside all scenarios, random scripts, and all ways to meet the past.
//
// MANAGER_BINARY and MANAGER_FLAGS run another manager, for example the original. CHAOS_TABLE names a file to which the
// result is appended as a table, CHAOS_HISTORIES a folder for the histories of runs that have failed, and CHAOS_WITHOUT
// oracles whose violations are counted but tolerated, such as S3,S13.
package chaos

import (
	"flag"
	"os"
	"testing"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// full says that nothing is left out for the sake of time.
var full = os.Getenv("CHAOS_FULL") != ""

// environment is what a command that replays a run begins with.
func environment() string {
	if full {
		return "CHAOS_FULL=1 "
	}
	return ""
}

// parallel is how many runs go on at the same time, unless the flag -parallel is given. They mostly wait.
const parallel = "6"

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", parallel) // the flag exists
	// The API server has no role for the storage version garbage collector without a feature gate (REG-64).
	cluster.Main(m, func(t testing.TB, c *cluster.Cluster) { c.ApplyRoles(t, "all") })
}
