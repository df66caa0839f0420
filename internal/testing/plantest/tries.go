package plantest

// Tries returns n, or under the race detector the smaller number.
func Tries(n, underRace int) int {
	if Race {
		return underRace
	}
	return n
}
