package circuit

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errDown = errors.New("down")

// admits reports whether a request of the API is admitted, and ends it at once, with what it is told.
func admits(t *testing.T, g *Breaker[string], failure error) bool {
	t.Helper()
	end, err := g.Begin("api")
	if err != nil {
		return false
	}
	end(failure)
	return true
}

func begin(t *testing.T, g *Breaker[string], key string) func(error) {
	t.Helper()
	end, err := g.Begin(key)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return end
}

func refuses(t *testing.T, g *Breaker[string], want error) {
	t.Helper()
	if _, err := g.Begin("api"); !errors.Is(err, want) {
		t.Fatalf("%v, want %v", err, want)
	}
}

// A request ends once, so that whoever may panic can have its end deferred.
func TestEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Breaker[string]{Slow: time.Second, Pause: time.Minute}
		first, second := begin(t, g, "api"), begin(t, g, "api")
		first(nil)
		first(errDown)
		first(ErrUnknown)
		time.Sleep(2 * time.Second)
		refuses(t, g, ErrBusy)
		second(nil)
		if !admits(t, g, nil) || len(g.keys) != 0 {
			t.Errorf("%d keys are remembered of which there is nothing to say", len(g.keys))
		}
	})
}

// While a request is slow, no other one waits for the same.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Breaker[string]{Slow: time.Second}
		slow := begin(t, g, "api")
		time.Sleep(time.Second)
		quick := begin(t, g, "api")
		time.Sleep(time.Nanosecond)
		refuses(t, g, ErrBusy)
		begin(t, g, "other")(nil)
		quick(nil) // one that ends tells that others may, too
		if !admits(t, g, nil) {
			t.Error("refused, although one has just been answered")
		}
		time.Sleep(2 * time.Second)
		refuses(t, g, ErrBusy)
		slow(nil)
		if !admits(t, g, nil) {
			t.Error("refused, although nothing is under way")
		}
	})
}

// After a failure there is a pause. Then all are admitted again.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Breaker[string]{Pause: 10 * time.Second}
		end := begin(t, g, "api")
		time.Sleep(time.Second)
		end(errDown)
		time.Sleep(10*time.Second - 1)
		refuses(t, g, errDown)
		begin(t, g, "other")(nil)
		time.Sleep(time.Nanosecond)
		first, second := begin(t, g, "api"), begin(t, g, "api")
		first(errDown)
		refuses(t, g, errDown)
		second(nil)
		if !admits(t, g, nil) || len(g.keys) != 0 {
			t.Error("it has answered, and still counts as failing")
		}
	})
}

// While an API fails, one request is admitted after another.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Breaker[string]{Pause: 5 * time.Second, Turn: time.Minute}
		end := begin(t, g, "api")
		time.Sleep(time.Second)
		end(errDown)
		time.Sleep(5 * time.Second)
		turn := begin(t, g, "api")
		refuses(t, g, errDown)
		time.Sleep(30 * time.Second)
		refuses(t, g, errDown)
		turn(errDown) // the next one is due after the pause
		time.Sleep(5*time.Second - 1)
		refuses(t, g, errDown)
		time.Sleep(time.Nanosecond)
		begin(t, g, "api") // never ends
		time.Sleep(time.Minute - 1)
		refuses(t, g, errDown)
		time.Sleep(time.Nanosecond)
		begin(t, g, "api")(nil)
		if !admits(t, g, nil) {
			t.Error("it has answered, and still counts as failing")
		}
	})
}

// An API counts as failing if it has answered nobody for some time. A request that began before an answer and failed after it says
// something about the time since the answer only.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Breaker[string]{Patience: time.Minute, Turn: 20 * time.Second}
		early := begin(t, g, "api")
		time.Sleep(30 * time.Second)
		if !admits(t, g, nil) {
			t.Error("refused at first")
		}
		answered := time.Now()
		time.Sleep(time.Second)
		early(errDown)
		for time.Since(answered) < time.Minute {
			if !admits(t, g, errDown) {
				t.Fatalf("refused after %v", time.Since(answered))
			}
			time.Sleep(time.Second)
		}
		for range 3 {
			if !admits(t, g, errDown) {
				t.Error("refused its turn")
			}
			refuses(t, g, errDown)
			time.Sleep(20 * time.Second)
		}
		end := begin(t, g, "api")
		end(ErrUnknown) // one that was given up tells nothing
		refuses(t, g, errDown)
		time.Sleep(20 * time.Second)
		if !admits(t, g, nil) || !admits(t, g, errDown) || !admits(t, g, nil) {
			t.Error("it has answered, and still counts as failing")
		}
	})
}
