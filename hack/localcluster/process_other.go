//go:build !linux

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// processes lists the running processes whose program was started from a path in dir. It asks the system instead of pid
// files, because those may be missing or old.
func processes(dir string) ([]process, error) {
	out, err := exec.Command("ps", "-axww", "-o", "pid=,command=").Output()
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	var found []process
	for line := range strings.Lines(string(out)) {
		pidText, command, _ := strings.Cut(strings.TrimSpace(line), " ")
		pid, err := strconv.Atoi(pidText)
		if err != nil || !strings.HasPrefix(command, dir+"/") {
			continue
		}
		argv0, _, _ := strings.Cut(command, " -")
		found = append(found, process{pid: pid, name: filepath.Base(argv0)})
	}
	return found, nil
}
