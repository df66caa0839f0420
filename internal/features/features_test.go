package features

import (
	"strings"
	"testing"
)

// Gates are as in the version that this build takes the place of: of the same name, alpha gates are off, and most others on.
func TestDefault(t *testing.T) {
	for gate, want := range map[string]struct{ on, known bool }{
		"PodDeletionCost":             {true, true},
		"MaxUnavailableStatefulSet":   {true, true},  // beta
		"StatefulSetRecreateStrategy": {false, true}, // alpha
		"JobManagedBy":                {true, true},  // GA
		"JobSuccessPolicy":            {true, true},  // of 1.36 only
		"CronJobsScheduledAnnotation": {true, true},  // of 1.34 only
		"ClientsAllowConnectionPool":  {false, true}, // of 1.38, where it is on
		"NoSuchGate":                  {false, false},
	} {
		if on, known := Default(gate); on != want.on || known != want.known {
			t.Errorf("%s: on %t, known %t", gate, on, known)
		}
	}
}

// TestGatesThatCannotBeSwitched: each gate that is locked or removed says what it means, and no other one does.
func TestGatesThatCannotBeSwitched(t *testing.T) {
	for name, gate := range All() {
		_, locked := gate.Locked()
		if gone := locked || gate.Removed != ""; gone != strings.HasSuffix(gate.Meaning, ".") {
			t.Errorf("%s: locked %t, removed %q, meaning %q", name, locked, gate.Removed, gate.Meaning)
		}
	}
}
