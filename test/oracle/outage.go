package oracle

import (
	"slices"
	"strings"
	"time"
)

// Interval is a span of time.
type Interval struct{ From, To time.Time }

// Outage is a time in which a manager could not see or act. It ends when the manager's caches have caught up.
type Outage struct {
	Interval
	Manager  string // as Options.Identity names it; empty for all
	Resource string // what it could not see or write, such as pods; empty for everything
}

// Blackout is an outage of all managers and resources.
func Blackout(from, to time.Time) Outage { return Outage{Interval: Interval{from, to}} }

// intervals are in order and do not overlap.
type intervals []Interval

// outages are those of a history.
type outages struct {
	all   []Outage
	known map[string]intervals // by manager and resources
}

// of are the times in which a manager had an outage of any of the resources; any manager if it is not named, and any resource if
// none is.
func (o *outages) of(manager string, resources ...string) intervals {
	if len(o.all) == 0 {
		return nil
	}
	id := manager + " " + strings.Join(resources, " ")
	if known, ok := o.known[id]; ok {
		return known
	}
	var times []Interval
	for _, each := range o.all {
		theirs := manager == "" || each.Manager == "" || each.Manager == manager
		if theirs && (len(resources) == 0 || each.Resource == "" || slices.Contains(resources, each.Resource)) {
			times = append(times, each.Interval)
		}
	}
	o.known[id] = merged(times)
	return o.known[id]
}

// Impaired is how much of the time until the given end lies in outages.
func Impaired(all []Outage, end time.Time) (sum time.Duration) {
	times := &outages{all: all, known: map[string]intervals{}}
	for _, i := range times.of("") {
		if i.From.Before(end) {
			sum += earlier(i.To, end).Sub(i.From)
		}
	}
	return sum
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// merged puts intervals in order and joins those that overlap.
func merged(all []Interval) (out intervals) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Interval) int { return a.From.Compare(b.From) })
	for _, i := range all {
		if last := len(out) - 1; last >= 0 && !i.From.After(out[last].To) {
			if i.To.After(out[last].To) {
				out[last].To = i.To
			}
			continue
		}
		out = append(out, i)
	}
	return out
}

// before is the moment from which there is as much time to now as given, that in the intervals not counted. Without any it is
// now minus d.
func (all intervals) before(now time.Time, d time.Duration) time.Time {
	start := now.Add(-d)
	for _, i := range slices.Backward(all) {
		if !i.From.Before(now) {
			continue // it began later
		}
		if !i.To.After(start) {
			break
		}
		start = start.Add(i.From.Sub(earlier(i.To, now)))
	}
	return start
}

// contain reports whether a time is in one of the intervals.
func (all intervals) contain(t time.Time) bool {
	return slices.ContainsFunc(all, func(i Interval) bool { return !t.Before(i.From) && !t.After(i.To) })
}
