// Package clock gives controllers the time. Deadlines that stand in objects, such as when a Job began, are compared with the wall clock, and that
// of a machine may be set wrongly, or stand still while the machine is suspended. So what controllers take for the time continues steadily when
// the wall clock jumps, until the API server says which of the two is right.
//
//	clock := clock.New()
//	config.Wrap(clock.Listen) // a client, whose answers have dates
//	now := clock.Now()
package clock
