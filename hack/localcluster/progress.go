package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// compiled stands for the size of a package's source once it is compiled.
const compiled = -1

// progress knows which packages a build still has to compile.
type progress struct {
	start time.Time

	mu          sync.Mutex
	listed      bool             // whether all of them are known
	left        map[string]int64 // those that are known, with the size of their source, or compiled
	bytes, done int64            // of source: of all that are known, and of those that have been compiled
	packages    int              // that are known
	compiled    int
	downloaded  int       // modules
	began       time.Time // when the first package was compiled
}

func newProgress() *progress { return &progress{start: time.Now(), left: map[string]int64{}} }

// list finds out which packages a build will compile. It downloads their modules, for which a build would wait.
func (p *progress) list(ctx context.Context, b batch) error {
	const each = `{{if .Stale}}{{.ImportPath}}{{$dir := .Dir}}{{range .GoFiles}}{{"\t"}}{{$dir}}/{{.}}{{end}}{{end}}`
	cmd := exec.CommandContext(ctx, "go", append([]string{"list", "-trimpath", "-deps", "-f", each}, b.packages...)...)
	cmd.Dir, cmd.Env = b.dir, append(b.environment(), "GOMAXPROCS=8") // as many downloads at the same time
	var log buildLog
	log.progress = p
	errors, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		return err
	}
	log.read(errors)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("listing the packages of %s: %w\n%s", b.what, err, log.errors())
	}
	p.expect(out.String())
	return nil
}

// expect adds packages, each in a line with the files of its source.
func (p *progress) expect(list string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range strings.Lines(list) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		path, files := fields[0], fields[1:]
		if _, known := p.left[path]; known || path == "" {
			continue
		}
		var size int64
		for _, file := range files {
			if info, err := os.Stat(filepath.FromSlash(file)); err == nil {
				size += info.Size()
			}
		}
		p.left[path] = size
		p.bytes += size
		p.packages++
	}
}

func (p *progress) complete() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed = true
}

func (p *progress) download() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.downloaded++
}

// compile notes that a package is being compiled.
func (p *progress) compile(path string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began.IsZero() {
		p.began = now
	}
	size, known := p.left[path]
	if !known || size == compiled {
		return
	}
	p.compiled++
	p.done += size
	p.left[path] = compiled
}

// state says how far the build is and, once all packages are known and enough of them are compiled, how much time is left.
func (p *progress) state(now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.compiled == 0 {
		return fmt.Sprintf("%d modules downloaded", p.downloaded)
	}
	if !p.listed {
		return fmt.Sprintf("%d packages compiled, %d modules downloaded", p.compiled, p.downloaded)
	}
	what := fmt.Sprintf("%d of %d packages", p.compiled, p.packages)
	took := now.Sub(p.began)
	if p.done == 0 || took < 10*time.Second {
		return what
	}
	left := time.Duration(float64(took) * float64(p.bytes-p.done) / float64(p.done))
	switch {
	case left < 10*time.Second:
		return what + ", a few seconds left"
	case left < time.Minute:
		return fmt.Sprintf("%s, about %ds left", what, int(left.Round(10*time.Second).Seconds()))
	default:
		return fmt.Sprintf("%s, about %dm left", what, int(left.Round(time.Minute).Minutes()))
	}
}

func (p *progress) report(what, state string) {
	fmt.Fprintf(os.Stderr, "  %6s  %s: %s\n", time.Since(p.start).Round(time.Second), what, state)
}

// run runs a "go build -v" and says every 15 seconds how far it is. Its output is shown only if it fails.
func (p *progress) run(cmd *exec.Cmd, what string) error {
	p.report(what, "started")
	output, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	cmd.Stdout = io.Discard
	if err := cmd.Start(); err != nil {
		return err
	}
	log := buildLog{progress: p}
	read := make(chan struct{})
	go func() {
		defer close(read)
		log.read(output)
	}()
	ticker := time.NewTicker(15 * time.Second)
	defer ticker.Stop()
	for reading := true; reading; {
		select {
		case <-read:
			reading = false
		case now := <-ticker.C:
			p.report(what, p.state(now))
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("building %s failed (%w):\n%s", what, err, log.errors())
	}
	p.report(what, "done")
	return nil
}

// buildLog follows what "go build -v" prints: a line for each module it downloads and each package it compiles.
type buildLog struct {
	progress *progress

	mu                   sync.Mutex
	downloaded, compiled int
	rest                 []string
}

func (l *buildLog) read(r io.Reader) {
	packagePath := regexp.MustCompile(`^[a-zA-Z0-9./_~-]+$`)
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := scanner.Text()
		l.mu.Lock()
		switch {
		case strings.HasPrefix(line, "go: downloading"):
			l.downloaded++
			if l.progress != nil {
				l.progress.download()
			}
		case packagePath.MatchString(line):
			l.compiled++
			if l.progress != nil {
				l.progress.compile(line, time.Now())
			}
		default:
			l.rest = append(l.rest, line)
		}
		l.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, r) // after a line too long to read: let the build go on
}

// errors are the last lines that are neither a download nor a package.
func (l *buildLog) errors() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.rest[max(0, len(l.rest)-30):], "\n")
}
