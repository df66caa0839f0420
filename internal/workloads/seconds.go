package workloads

import "time"

// century is the longest duration of [Seconds]: what is added to it still fits a duration.
const century = 100 * 365 * 24 * time.Hour

// Seconds returns as many seconds as a field of an object has, but no more than a century either way: a product of a
// large number would wrap, and be short or negative.
func Seconds[N ~int32 | ~int64](n N) time.Duration {
	const most = int64(century / time.Second)
	return time.Duration(max(-most, min(int64(n), most))) * time.Second
}
