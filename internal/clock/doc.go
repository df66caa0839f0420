// Package clock gives controllers the time. Deadlines that stand in objects, such as when a Job began, are compared
// with the wall clock, and that of a machine may be set wrongly, or stand still while the machine is suspended. So what
// controllers take for the time continues steadily when the wall clock jumps, until the API server says which of the
// two is right.
//
//	clock := clock.New()
//	config.Wrap(clock.Listen) // a client, whose answers have dates
//	now := clock.Now()
//
// A jump counts when the Date of an answer is closer to the clock of the machine than to what the time was before. If
// it is closer to the latter, the machine is wrong, and is not believed until its clock is mended. If no answer has a
// date, the machine is believed.
//
// What cannot be known is whether the clock was right before it jumped, if that of the API server has jumped with it,
// as on the same machine. Then schedules, times to live and deadlines follow the wall clock. After a clock was set
// back, what stands in objects from before lasts longer by as much; nothing waits for ever, as timers are monotonic.
package clock
