package plan

import "time"

// SeenAt returns a time that stands in an object, as this process measures it that has seen the object at another time:
// what has passed since then is measured by the monotonic clock, which does not jump. It is for times that this process
// may have written by a wall clock that was wrong.
func SeenAt(stamp, seen time.Time) time.Time { return seen.Add(stamp.Sub(seen)) }
