package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// process is a running program of a cluster.
type process struct {
	pid  int
	name string
}

// processesNamed are those of dir's processes that have the given name.
func processesNamed(dir, name string) ([]process, error) {
	all, err := processes(dir)
	var named []process
	for _, p := range all {
		if p.name == name {
			named = append(named, p)
		}
	}
	return named, err
}

// terminate ends the processes that list returns: it asks them to, and kills what is left after grace. A grace of zero
// kills at once. It returns when all are gone.
func terminate(list func() ([]process, error), grace time.Duration) error {
	kill := time.Now().Add(grace)
	giveUp := kill.Add(20 * time.Second)
	asked := map[int]bool{}
	for {
		running, err := list()
		if err != nil || len(running) == 0 {
			return err
		}
		now := time.Now()
		for _, p := range running {
			if !now.Before(kill) {
				err = syscall.Kill(p.pid, syscall.SIGKILL)
			} else if !asked[p.pid] {
				asked[p.pid] = true
				err = syscall.Kill(p.pid, syscall.SIGTERM)
			}
			if err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("end %s (pid %d): %w", p.name, p.pid, err)
			}
		}
		if now.After(giveUp) {
			return fmt.Errorf("still running after SIGKILL: %s", describeProcesses(running))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func describeProcesses(ps []process) string {
	var parts []string
	for _, p := range ps {
		parts = append(parts, fmt.Sprintf("%s (pid %d)", p.name, p.pid))
	}
	return strings.Join(parts, ", ")
}
