package features

import "testing"

// Gates are as in the version that this build takes the place of: of the same name, alpha gates are off, and most others on.
func TestDefault(t *testing.T) {
	for gate, want := range map[string]struct{ on, known bool }{
		"PodDeletionCost":           {true, true},
		"MaxUnavailableStatefulSet": {false, true},
		"HPAScaleToZero":            {false, true},
		"JobManagedBy":              {true, true}, // GA
		"NoSuchGate":                {false, false},
	} {
		if on, known := Default(gate); on != want.on || known != want.known {
			t.Errorf("%s: on %t, known %t", gate, on, known)
		}
	}
}
