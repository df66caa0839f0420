package cronjob

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/robfig/cron/v3"
	"pgregory.net/rapid"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

func in(t testing.TB, name string) zone {
	t.Helper()
	location, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone{location}
}

// next returns the next n times of a schedule, as wall times of the zone.
func next(t *testing.T, text string, in zone, from string, n int) (times []string) {
	t.Helper()
	schedule, err := parse(text, in)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.ParseInLocation("2006-01-02 15:04:05", from, in.Location)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		at = following(schedule, at)
		times = append(times, at.Format("01-02 15:04 MST"))
	}
	return times
}

func TestSchedules(t *testing.T) {
	for _, c := range []struct{ name, text, zone, from, want string }{
		{"CJ-26 every five minutes", "*/5 * * * *", "UTC", "2026-01-01 10:02:30", "01-01 10:05 UTC, 01-01 10:10 UTC"},
		{"CJ-26 N/s goes to the maximum", "50/5 * * * *", "UTC", "2026-01-01 10:02:30",
			"01-01 10:50 UTC, 01-01 10:55 UTC, 01-01 11:50 UTC"},
		{"CJ-26 lists, ranges and names", "0 9-10,12 * JAN mon", "UTC", "2026-01-01 10:02:30",
			"01-05 09:00 UTC, 01-05 10:00 UTC, 01-05 12:00 UTC, 01-12 09:00 UTC"},
		{"CJ-26 either of two day fields", "0 0 13 * fri", "UTC", "2026-01-01 10:00:00",
			"01-02 00:00 UTC, 01-09 00:00 UTC, 01-13 00:00 UTC"},
		{"CJ-26 a question mark restricts nothing", "0 0 ? * fri", "UTC", "2026-01-01 10:00:00", "01-02 00:00 UTC, 01-09 00:00 UTC"},
		{"CJ-27 yearly", "@yearly", "UTC", "2026-01-01 10:00:00", "01-01 00:00 UTC"},
		{"CJ-27 monthly", "@monthly", "UTC", "2026-01-01 10:00:00", "02-01 00:00 UTC, 03-01 00:00 UTC"},
		{"CJ-27 weekly is on Sundays", "@weekly", "UTC", "2026-01-01 10:00:00", "01-04 00:00 UTC, 01-11 00:00 UTC"},
		{"CJ-27 daily", "@midnight", "UTC", "2026-01-01 10:00:00", "01-02 00:00 UTC, 01-03 00:00 UTC"},
		{"CJ-27 hourly", "@hourly", "UTC", "2026-01-01 10:02:00", "01-01 11:00 UTC, 01-01 12:00 UTC"},
		{"CJ-27 every counts from the time before", "@every 90m", "UTC", "2026-01-01 10:02:00", "01-01 11:32 UTC, 01-01 13:02 UTC"},
		{"CJ-28 a time zone", "0 3 * * *", "Asia/Kathmandu", "2026-01-01 10:00:00", "01-02 03:00 +0545, 01-03 03:00 +0545"},
		{"CJ-28 an old zone in the schedule wins", "CRON_TZ=Asia/Tokyo 0 3 * * *", "UTC", "2026-01-01 10:00:00",
			"01-01 18:00 UTC, 01-02 18:00 UTC"},
		{"CJ-29 a wall time that does not exist is left out", "30 2 * * *", "America/New_York", "2026-03-07 00:00:00",
			"03-07 02:30 EST, 03-09 02:30 EDT"},
		{"CJ-29 a wall time that occurs twice runs twice", "30 1 * * *", "America/New_York", "2026-10-31 12:00:00",
			"11-01 01:30 EDT, 11-01 01:30 EST, 11-02 01:30 EST"},
		{"CJ-29 in the south", "30 2 * * *", "Australia/Sydney", "2026-10-03 00:00:00", "10-03 02:30 AEST, 10-05 02:30 AEDT"},
		{"CJ-29 every hour of the long day", "0 * * * *", "Europe/Berlin", "2026-10-25 00:30:00",
			"10-25 01:00 CEST, 10-25 02:00 CEST, 10-25 02:00 CET, 10-25 03:00 CET"},
		{"CJ-29 every hour of the short day", "0 * * * *", "Europe/Berlin", "2026-03-29 00:30:00", "03-29 01:00 CET, 03-29 03:00 CEST"},
	} {
		want := strings.Split(c.want, ", ")
		if diff := cmp.Diff(want, next(t, c.text, in(t, c.zone), c.from, len(want))); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestUnparsableSchedules(t *testing.T) { // CJ-26, CJ-28
	for _, text := range []string{
		"", " ", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 * *", "* * * * 7", "*/0 * * * *",
		"5-1 * * * *",
		"TZ=", "TZ=UTC", "CRON_TZ=Europe/Berlin", "TZ=Nowhere/At_All * * * * *", "TZ=../../etc/passwd * * * * *", "@every", "@every x",
		"@sometimes",
		", * * * *", "1-2-3 * * * *", "1/2/3 * * * *", "-1 * * * *",
	} {
		if s, err := parse(text, in(t, "UTC")); err == nil {
			t.Errorf("%q is %v", text, s)
		}
	}
}

// twoYears are schedules in zones with changes of the clock: of an hour and of half an hour, at midnight, in the north and in the south.
var (
	texts = []string{
		"*/7 5 * * *", "30 1 * * *", "30 2 * * *", "0 0 * * *", "15 0,3 * * *", "0 */6 * * *", "45 23 * * 1-5", "0 0 1 * *",
		"0 12 13 * fri", "59 23 31 12 *",
		"@yearly", "@monthly", "@weekly", "@daily", "@hourly", "@every 1h30m", "@every 17h", "@every 37m",
	}
	zones = []string{
		"UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Australia/Sydney", "America/Santiago", "Africa/Casablanca",
		"Asia/Beirut",
		"Africa/Cairo", "America/Havana", "Asia/Kathmandu", "Pacific/Chatham", "America/Asuncion",
	}
)

// inTurn returns the times that the library names one after the other. It is asked each hour: where a clock changes by half an hour, it
// leaves out what it looks for from before that, such as the next Sunday (a night found this).
func inTurn(schedule cron.Schedule, after, until time.Time) (all []time.Time) {
	for at := after; ; {
		next := schedule.Next(at)
		for hour := at.Truncate(time.Hour).Add(time.Hour); hour.Before(next); hour = hour.Add(time.Hour) {
			if named := schedule.Next(hour); named.After(at) && named.Before(next) {
				next = named
			}
		}
		if at = next; !at.Before(until) {
			return all
		}
		all = append(all, at)
	}
}

// A day is not left out after a change of the clock by half an hour (CJ-29).
func TestTheDayAfterHalfAnHour(t *testing.T) {
	for text, want := range map[string]string{"@weekly": "04-12 00:00 +1030", "0 0 * * mon": "04-06 00:00 +1030",
		"30 6 10 * *": "04-10 06:30 +1030"} {
		if got := next(t, text, in(t, "Australia/Lord_Howe"), "2026-04-05 00:00:00", 1); got[0] != want {
			t.Errorf("%s: %s, want %s", text, got[0], want)
		}
	}
}

// Whenever one looks in two years, the latest time and the next one are those that the library names one after the other (CJ-31).
func TestLatestIsTheLibrarysLatest(t *testing.T) {
	began := time.Date(2025, 12, 30, 13, 7, 11, 0, time.UTC)
	ends := began.AddDate(2, 0, 0)
	for i, text := range texts {
		for j, name := range zones {
			if plantest.Race && j > 0 && j != i%len(zones) {
				continue // UTC and another zone are enough there
			}
			if strings.HasPrefix(text, "@every") && name != "UTC" {
				continue // it has no zone
			}
			schedule, err := parse(text, in(t, name))
			if err != nil {
				t.Fatal(err)
			}
			all := inTurn(schedule, began, ends)
			rapid.Check(t, func(t *rapid.T) {
				now := began.Add(time.Duration(rapid.Int64Range(0, int64(ends.Sub(began)-1)).Draw(t, "now")))
				if i := rapid.IntRange(0, len(all)).Draw(t, "at a time of the schedule"); i < len(all) && rapid.Bool().Draw(t, "exactly") {
					now = all[i]
				}
				n, _ := slices.BinarySearchFunc(all, now, func(at, now time.Time) int { return at.Compare(now.Add(1)) })
				last, next := latest(schedule, began, now)
				switch {
				case n == 0 && !last.IsZero(), n > 0 && !last.Equal(all[n-1]):
					t.Errorf("%s in %s: at %v the latest is %v", text, name, now, last)
				case n < len(all) && !next.Equal(all[n]):
					t.Errorf("%s in %s: at %v the next is %v, not %v", text, name, now, next, all[n])
				}
			})
		}
	}
}

// Where clocks change at another time than the full hour, the library may name a time that has been. The controller goes forward all the
// same, and does not hang.
func TestClockChangesOffTheHour(t *testing.T) {
	for _, c := range []struct{ zone, day string }{
		{"Pacific/Chatham", "2026-04-04 12:00:00"}, {"Pacific/Chatham", "2026-09-26 12:00:00"},
		{"Australia/Lord_Howe", "2026-04-04 12:00:00"}, {"Australia/Lord_Howe", "2026-10-03 12:00:00"},
	} {
		began, err := time.Parse(time.DateTime, c.day)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"* * * * *", "*/7 2 * * *", "*/7 3 * * *", "0 3 * * *", "50 2,3 * * *", "15 1 * * *"} {
			schedule, err := parse(text, in(t, c.zone))
			if err != nil {
				t.Fatal(err)
			}
			for minute := range 6 * 60 {
				now := began.Add(time.Duration(minute) * time.Minute)
				last, next := latest(schedule, began.Add(-time.Hour), now)
				if last.After(now) || !next.After(now) || !following(schedule, now).After(now) {
					t.Errorf("%s in %s: at %v the latest is %v and the next %v", text, c.zone, now, last, next)
				}
			}
		}
	}
}

// counting counts how often a schedule is asked.
type counting struct {
	cron.Schedule
	asked *int
}

func (c counting) Next(t time.Time) time.Time { *c.asked++; return c.Schedule.Next(t) }

func TestCostDoesNotDependOnHowMuchWasMissed(t *testing.T) { // CJ-31
	schedule, err := parse("* * * * *", in(t, "UTC"))
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	now := time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC)
	last, _ := latest(counting{schedule, &asked}, time.Time{}, now)
	if want := now.Truncate(time.Minute); !last.Equal(want) || asked > 80 {
		t.Errorf("%v, asked %d times", last, asked)
	}
}

func TestImpossibleSchedules(t *testing.T) { // CJ-29
	for _, text := range []string{"0 0 31 2 *", "0 0 30 feb *", "* , * * *", "* * , * ,", "* * * , *"} {
		schedule, err := parse(text, in(t, "UTC"))
		if err != nil {
			t.Fatal(err)
		}
		if last, next := latest(schedule, time.Time{}, time.Now()); !last.IsZero() || !next.IsZero() {
			t.Errorf("%s: %v, %v", text, last, next)
		}
	}
}

func TestEveryCountsFromTheLastTime(t *testing.T) { // CJ-27
	began := time.Date(2026, 1, 1, 10, 0, 13, 0, time.UTC)
	schedule, err := parse("@every 45m", in(t, "UTC"))
	if err != nil {
		t.Fatal(err)
	}
	last, next := latest(schedule, began, began.Add(100*time.Minute))
	if !last.Equal(began.Add(90*time.Minute)) || !next.Equal(began.Add(135*time.Minute)) {
		t.Errorf("%v, %v", last, next)
	}
}

// Whatever the text is: nothing panics, nothing takes for ever, and what is due is not in the future.
func FuzzSchedule(f *testing.F) {
	for _, text := range append(slices.Clone(texts), "TZ=UTC", "TZ= ", "CRON_TZ=Asia/Tokyo 0 3 * * *", ",", "*/9223372036854775807 * * * *",
		"@every 2540400h") {
		f.Add(text, int64(0), int64(1e9))
	}
	f.Fuzz(func(t *testing.T, text string, since, now int64) {
		schedule, err := parse(text, zone{time.UTC})
		if err != nil {
			return
		}
		to := time.Unix(now%1e11, 0)
		last, next := latest(schedule, time.Unix(since%1e11, 0), to)
		if last.After(to) || !next.IsZero() && !next.After(to) && !next.After(time.Unix(since%1e11, 0)) {
			t.Errorf("%q: at %v the latest is %v and the next %v", text, to, last, next)
		}
	})
}
