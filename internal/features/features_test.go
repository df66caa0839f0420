package features

import "testing"

// Gates are as in the version that this build takes the place of: of the same name, alpha gates are off, and most others on.
func TestDefault(t *testing.T) {
	for gate, want := range map[string]struct{ on, known bool }{
		"PodDeletionCost":             {true, true},
		"MaxUnavailableStatefulSet":   {true, true},  // beta
		"StatefulSetRecreateStrategy": {false, true}, // alpha
		"JobManagedBy":                {true, true},  // GA
		"JobSuccessPolicy":            {true, true},  // of 1.36 only
		"NoSuchGate":                  {false, false},
	} {
		if on, known := Default(gate); on != want.on || known != want.known {
			t.Errorf("%s: on %t, known %t", gate, on, known)
		}
	}
}
