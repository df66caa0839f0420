// Package chaos runs the real binary, as a process, on a real control plane, and breaks what is between them and around
// them: see package proxy for the faults, and package oracle for what must hold all the same.
//
// Without flags it is a small set of runs: crashes at a selection of writes, each kind of fault once, and one API server
// that shows the past. CHAOS_FULL=1 in the environment is for all of it: crashes at every write, random scripts, and all
// ways to meet the past.
//
// MANAGER_BINARY and MANAGER_FLAGS run another manager, for example the original. CHAOS_TABLE names a file to which the
// result is appended as a table, CHAOS_HISTORIES a folder for the histories of runs that have failed, and CHAOS_WITHOUT
// oracles whose violations are counted but tolerated, such as S3,S13.
package chaos

import (
	"os"
	"testing"

	"github.com/standalone-kcm/controller-manager/test/cluster"
)

// full says that nothing is left out for the sake of time.
var full = os.Getenv("CHAOS_FULL") != ""

func TestMain(m *testing.M) { cluster.Main(m) }
