package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/standalone-kcm/controller-manager/test/generated"
)

// report is the JSON document.
type report struct {
	Began      time.Time   `json:"began"`
	Seconds    float64     `json:"seconds"` // how long it all took
	Quick      bool        `json:"quick"`
	Runs       int         `json:"runs"`
	Host       host        `json:"host"`
	Contenders []contender `json:"contenders"`
	Samples    []sample    `json:"samples"`
}

// host is the machine that it was measured on.
type host struct {
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	Cores   int    `json:"cores"`
	Memory  int64  `json:"memoryBytes,omitempty"`
	CPU     string `json:"cpu,omitempty"`
	Kernel  string `json:"kernel,omitempty"`
	Load    string `json:"load,omitempty"` // averages over 1, 5 and 15 minutes, at the end
	Builder string `json:"go"`             // the Go release that the benchmark was built with
}

func writeReport(file string, b *bench, began time.Time) error {
	document, err := json.MarshalIndent(report{
		Began: began, Seconds: time.Since(began).Seconds(), Quick: b.quick, Runs: b.runs,
		Host: thisHost(), Contenders: b.contenders, Samples: b.samples,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(document, '\n'), 0o644)
}

// results is what a page says of a run.
func results(samples []sample, began time.Time) string {
	h := thisHost()
	return fmt.Sprintf("%s, %d cores, %s, %s; the command took %s:\n\n    %s\n\n%s\n", began.UTC().Format(time.DateOnly), h.Cores, h.CPU,
		h.Builder,
		time.Since(began).Round(time.Minute), strings.Join(append([]string{"go run ."}, os.Args[1:]...), " "), table(samples))
}

// writePage replaces the results in a page.
func writePage(file, text string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changed, err := generated.Replace(string(page), "make bench", text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(changed), 0o644)
}

// thisHost leaves out what the system does not tell.
func thisHost() host {
	h := host{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Builder: runtime.Version()}
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		h.Memory, _ = parseStatus(string(info), "MemTotal")
	}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		h.CPU = cpuModel(string(info))
	}
	h.Kernel = firstLine("/proc/sys/kernel/osrelease")
	h.Load = firstLine("/proc/loadavg")
	return h
}

// cpuModel reads /proc/cpuinfo.
func cpuModel(info string) string {
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func firstLine(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}
