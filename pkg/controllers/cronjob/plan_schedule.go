package cronjob

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// zone is a time zone. It is stored as its name, so that a snapshot can be read back.
type zone struct{ *time.Location }

// MarshalText implements encoding.TextMarshaler.
func (z zone) MarshalText() ([]byte, error) { return []byte(z.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (z *zone) UnmarshalText(name []byte) (err error) {
	z.Location, err = time.LoadLocation(string(name))
	return err
}

// namesZone reports whether a schedule begins with a time zone, which no server accepts any more (CJ-28).
func namesZone(text string) bool {
	return strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=")
}

// parse returns the schedule that a text means in a time zone (CJ-26, CJ-27).
func parse(text string, in zone) (cron.Schedule, error) {
	if namesZone(text) && !strings.Contains(text, " ") {
		return nil, errors.New("nothing follows the time zone") // the library would panic
	}
	s, err := cron.ParseStandard(text)
	if err != nil {
		return nil, err
	}
	fields, ok := s.(*cron.SpecSchedule)
	switch {
	case !ok:
		return s, nil
	case fields.Minute == 0: // as of ",", with which the library would try each minute of five years
		return nil, fmt.Errorf("the field of minutes has none: %s", text)
	case !namesZone(text):
		fields.Location = in.Location
	}
	return fields, nil
}

// oldest is how far back times of a schedule are looked for.
const oldest = 100 * 365 * 24 * time.Hour

// latest returns the last time of a schedule that is after since and not after now, zero if there is none, and the
// first one after that, or after since (CJ-30, CJ-31). If next is zero, no time within five years matches (CJ-29).
// The cost does not depend on how many times there are between since and now.
func latest(s cron.Schedule, since, now time.Time) (last, next time.Time) {
	if first := now.Add(-oldest); since.Before(first) {
		since = first
	}
	next = following(s, since)
	// counted from since, so that it cannot be asked for times in between
	if every, ok := s.(cron.ConstantDelaySchedule); ok {
		if !next.After(now) {
			last = next.Add(now.Sub(next) / every.Delay * every.Delay)
			next = last.Add(every.Delay)
		}
		return last, next
	}
	until := now // no time of the schedule is after it and not after now
	for !next.IsZero() && !next.After(now) {
		last = next
		middle := last.Add(until.Sub(last) / 2)
		if later := following(s, middle); later.IsZero() || later.After(now) {
			until = middle
		} else {
			last = later
		}
		next = following(s, last)
	}
	return last, next
}

// following returns the first time of a schedule after t, zero if there is none. Where the clock changes by half an
// hour, as in Australia/Lord_Howe, the library omits what it looks for from before the first full hour after the
// change, such as the next Sunday. So it is also asked for what comes from the change, and from that hour on.
func following(s cron.Schedule, t time.Time) time.Time {
	next := libraryNext(s, t)
	spec, ok := s.(*cron.SpecSchedule)
	if !ok {
		return next
	}
	for _, change := t.In(spec.Location).ZoneBounds(); !change.IsZero() &&
		change.Before(next); _, change = change.ZoneBounds() {
		fullHour := change.Add(time.Duration((60-change.Minute())%60) * time.Minute)
		for _, from := range []time.Time{change, fullHour} {
			if earlier := libraryNext(s, from.Add(-time.Second)); earlier.After(t) && earlier.Before(next) {
				next = earlier
			}
		}
	}
	return next
}

// libraryNext returns the first time after t that the library names, zero if there is none. Where clocks are set back
// at another time than the full hour, as in Pacific/Chatham, it may name a time up to an hour before t; then it is
// asked again from a little later.
func libraryNext(s cron.Schedule, t time.Time) time.Time {
	for from := t; ; from = from.Add(time.Minute) {
		if next := s.Next(from); next.IsZero() || next.After(t) {
			return next
		}
	}
}
