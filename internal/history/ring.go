package history

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// segments is how many files share the bound: when it would be passed, the oldest file goes, so at least
	// (segments-1)/segments of the bound are kept.
	segments = 16
	// longestLine is that of a line that is read.
	longestLine = 64 << 10
	suffix      = ".jsonl"
)

// errLocked says that another process has the folder.
var errLocked = errors.New("another process keeps its history there: give each a folder of its own")

// ring is a folder with segments of lines. One goroutine writes; reading is for all, at any time.
type ring struct {
	dir   string
	most  int64 // bytes of all segments
	held  *os.File
	file  *os.File // the newest segment; nil before the first line
	size  int64    // of it
	torn  bool     // the last line of it may not have ended
	older []segment
}

type segment struct {
	path string
	size int64
}

// openRing takes a folder, which no other process may have.
func openRing(dir string, most int64) (r *ring, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	r = &ring{dir: dir, most: most}
	if r.held, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if err = lock(r.held); err == nil {
		r.older, err = segmentsIn(dir)
	}
	if err != nil {
		return nil, errors.Join(err, r.held.Close())
	}
	return r, nil
}

// segmentsIn returns the segments of a folder, the oldest first.
func segmentsIn(dir string) (all []segment, err error) {
	entries, err := os.ReadDir(dir) // in the order of names
	for _, e := range entries {
		if filepath.Ext(e.Name()) != suffix || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err == nil {
			all = append(all, segment{filepath.Join(dir, e.Name()), info.Size()})
		}
	}
	return all, err
}

// append writes lines, each of which ends. What was before is removed as far as the bound asks for it. After an error,
// none or some of the lines are there.
func (r *ring) append(lines []byte) error {
	need := int64(len(lines)) + 1
	if r.file == nil || r.size+need > r.most/segments {
		if err := r.next(need); err != nil {
			return err
		}
	}
	total := r.size + need
	for _, s := range r.older {
		total += s.size
	}
	for ; total > r.most && len(r.older) > 0; r.older = r.older[1:] {
		if err := os.Remove(r.older[0].path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= r.older[0].size
	}
	if r.torn {
		lines = append([]byte("\n"), lines...)
	}
	n, err := r.file.Write(lines)
	r.size += int64(n)
	r.torn = err != nil
	return err
}

// next begins a segment, or goes on with the one of the process before if there is room.
func (r *ring) next(need int64) error {
	name, flags := fmt.Sprintf("%012d%s", 1, suffix), os.O_CREATE|os.O_EXCL
	if last := len(r.older) - 1; r.file == nil && last >= 0 && r.older[last].size+need <= r.most/segments {
		name, flags = filepath.Base(r.older[last].path), 0
	} else if newest := r.newest(); newest != "" {
		var number int64
		if _, err := fmt.Sscanf(strings.TrimSuffix(newest, suffix), "%d", &number); err != nil {
			return fmt.Errorf("%s is no segment", newest)
		}
		name = fmt.Sprintf("%012d%s", number+1, suffix)
	}
	path := filepath.Join(r.dir, name)
	file, err := os.OpenFile(path, flags|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if r.file != nil {
		r.older = append(r.older, segment{r.file.Name(), r.size})
		_ = r.file.Close() // nothing is buffered
	}
	r.file, r.size, r.torn = file, 0, false
	if flags == 0 {
		last := len(r.older) - 1
		r.size, r.torn = r.older[last].size, true // the process before may have ended in a line
		r.older = r.older[:last]
	}
	return nil
}

// newest is the name of the newest segment; empty if there is none.
func (r *ring) newest() string {
	if r.file != nil {
		return filepath.Base(r.file.Name())
	}
	if len(r.older) > 0 {
		return filepath.Base(r.older[len(r.older)-1].path)
	}
	return ""
}

// close gives the folder to others.
func (r *ring) close() error {
	err := r.held.Close()
	if r.file != nil {
		err = errors.Join(r.file.Close(), err)
	}
	return err
}

// scan calls f with each line of a folder that has one of some texts in it, the oldest first. The line is valid during
// the call. Lines that are too long, or have not ended, are left out.
func scan(ctx context.Context, dir string, texts [][]byte, f func(line []byte)) error {
	all, err := segmentsIn(dir)
	if err != nil {
		return err
	}
	for _, s := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := scanSegment(s.path, texts, f)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it has just been removed
			return err
		}
	}
	return nil
}

func scanSegment(path string, texts [][]byte, f func(line []byte)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewReaderSize(file, longestLine)
	for whole := true; ; {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			whole = false
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case whole && slices.ContainsFunc(texts, func(t []byte) bool { return bytes.Contains(line, t) }):
			f(line)
		}
		whole = true
	}
}
