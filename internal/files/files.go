package files

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// Longest is the length of the longest file that is read, in bytes. Keys and certificates need less. A longer file is
// an error.
const Longest = 1 << 20

// every is the time between two looks at a file.
const every = 5 * time.Second

// Read returns the content of a file. It fails if the file is longer than [Longest].
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, Longest+1))
	if err == nil && len(content) > Longest {
		err = fmt.Errorf("%s is longer than %d bytes", path, Longest)
	}
	return content, err
}

// File is what a file says. It is safe for concurrent use.
type File[T any] struct {
	path string
	// parse makes the value, and refuses content that is no good.
	parse func(content []byte) (T, error)

	mu     sync.Mutex
	looked time.Time // when the file was last read
	// content and value are those of the last good content.
	content []byte
	value   T
	err     error // why the file could not be read again
}

// Open reads and parses a file. It fails if either fails.
func Open[T any](path string, parse func(content []byte) (T, error)) (*File[T], error) {
	f := &File[T]{path: path, parse: parse}
	f.look()
	return f, f.err
}

// Fixed returns a File without a file, which always says the same.
func Fixed[T any](value T) *File[T] { return &File[T]{value: value} }

// Get returns what the file says, as of a few seconds ago at most. If it cannot be read or parsed any more, what it
// said before stays.
func (f *File[T]) Get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path != "" && time.Since(f.looked) >= every {
		f.look()
	}
	return f.value
}

// Now returns what the file says at this moment. Like Get, it returns what the file said before if it cannot be read
// or parsed.
func (f *File[T]) Now() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path != "" {
		f.look()
	}
	return f.value
}

// look reads the file.
func (f *File[T]) look() {
	f.looked = time.Now()
	content, err := Read(f.path)
	if err != nil || f.content != nil && bytes.Equal(content, f.content) {
		f.err = err
		return
	}
	value, err := f.parse(content)
	if f.err = err; err == nil {
		f.content, f.value = content, value
	}
}

// Log logs whenever the file has come to say something else than before, until ctx ends. That it cannot be read again
// is logged once.
func (f *File[T]) Log(ctx context.Context) { f.Follow(ctx, func() {}) }

// Follow does the same, and calls changed whenever the file has come to say something else than before.
func (f *File[T]) Follow(ctx context.Context, changed func()) {
	if f.path == "" {
		<-ctx.Done()
		return
	}
	logger := klog.FromContext(ctx).WithValues("file", f.path)
	said, failed := f.state()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		f.Get()
		says, err := f.state()
		switch {
		case err != nil && failed == nil:
			logger.Error(err, "The file cannot be read again, what it said before stays")
		case err == nil && failed != nil, !bytes.Equal(says, said):
			logger.Info("The file was read again")
		}
		failed = err
		if !bytes.Equal(says, said) {
			said = says
			changed()
		}
	}
}

// state is what was read last, and what is wrong with the file since then.
func (f *File[T]) state() (content []byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.content, f.err
}
