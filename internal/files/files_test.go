package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func upper(content []byte) (string, error) {
	if strings.Contains(string(content), "bad") {
		return "", errors.New("bad content")
	}
	return strings.ToUpper(string(content)), nil
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A file is read again when it changes; what cannot be read or parsed leaves what was there before.
func TestFilesThatChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "a")
	synctest.Test(t, func(t *testing.T) {
		f, err := Open(path, upper)
		if err != nil {
			t.Fatal(err)
		}
		changes := 0
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go f.Follow(ctx, func() { changes++ })
		synctest.Wait()
		for _, c := range []struct {
			change  func()
			want    string
			changes int
		}{
			{func() { write(t, path, "b") }, "B", 1},
			{func() { write(t, path, "bad") }, "B", 1},
			{func() { _ = os.Remove(path) }, "B", 1},
			{func() { write(t, path, "b") }, "B", 1},
			{func() { write(t, path, "") }, "", 2},
			{func() { write(t, path, "c") }, "C", 3},
		} {
			c.change()
			time.Sleep(every + time.Second)
			synctest.Wait()
			if got := f.Get(); got != c.want || changes != c.changes {
				t.Errorf("it says %q after %d changes, want %q after %d", got, changes, c.want, c.changes)
			}
		}
	})
}

// Who has not followed the file, such as a standby, does not use what it said long ago.
func TestGetLooksAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "a")
	synctest.Test(t, func(t *testing.T) {
		f, err := Open(path, upper)
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, "b")
		time.Sleep(every)
		if got := f.Get(); got != "B" {
			t.Errorf("it says %q", got)
		}
	})
}

func TestFilesThatAreNoGood(t *testing.T) {
	dir := t.TempDir()
	bad, huge := filepath.Join(dir, "bad"), filepath.Join(dir, "huge")
	write(t, bad, "bad")
	write(t, huge, strings.Repeat("x", Longest+1))
	for _, path := range []string{bad, huge, dir, filepath.Join(dir, "none")} {
		if _, err := Open(path, upper); err == nil {
			t.Errorf("no error for %s", path)
		}
	}
}

// A File without a file says the same for ever.
func TestFixed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := Fixed("x")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		f.Follow(ctx, func() { t.Error("it has changed") })
		if f.Get() != "x" {
			t.Error("it says something else")
		}
	})
}
