package reconcile

import "testing"

// What was asked for last is worked out once, until it is over or something else is asked for.
func TestMemo(t *testing.T) {
	var m Memo[string, int]
	worked := 0
	ask := func(key string, want int) {
		t.Helper()
		if got := m.Of(key, func() int { worked++; return len(key) }); got != len(key) || worked != want {
			t.Errorf("%q is %d, worked out %d times, want %d", key, got, worked, want)
		}
	}
	ask("", 1)
	ask("", 1)
	ask("a", 2)
	ask("a", 2)
	ask("", 3)
	m.Forget(func(key string) bool { return key == "a" })
	ask("", 3)
	m.Forget(func(key string) bool { return key == "" })
	ask("", 4)
}
