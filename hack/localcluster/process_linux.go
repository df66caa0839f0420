package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// processes lists the running processes whose program was started from a path in dir. It asks the kernel instead of pid
// files, because those may be missing or old.
func processes(dir string) ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		cmdline, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline")) // empty for a zombie
		if err != nil {
			continue
		}
		argv0, _, _ := strings.Cut(string(cmdline), "\x00")
		if strings.HasPrefix(argv0, dir+"/") {
			found = append(found, process{pid: pid, name: filepath.Base(argv0)})
		}
	}
	return found, nil
}
