package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A sidecar that ends is started again, and all are ended when their driver is.
func TestSidecarsAreKeptRunning(t *testing.T) {
	s := sidecars{programs: t.TempDir(), logs: t.TempDir(), kubeconfig: "admin", endpoint: "unix://csi.sock"}
	for name := range s.args() {
		// The first run ends at once.
		script := "#!/bin/sh\ntrap 'echo asked to end; exit' TERM\necho \"$@\"\n[ -e \"$0.ran\" ] || { touch \"$0.ran\"; exit 1; }\nwhile " +
			":; do sleep 0.05; done\n"
		if err := os.WriteFile(filepath.Join(s.programs, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	log := func(name string) []string {
		data, _ := os.ReadFile(filepath.Join(s.logs, name+".log"))
		return strings.Split(strings.TrimSpace(string(data)), "\n")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.run(ctx) }()
	names := []string{"csi-attacher", "csi-provisioner", "csi-resizer"}
	for _, name := range names {
		eventually(t, name+" runs the second time", func() bool { return len(log(name)) == 2 })
	}
	cancel()
	<-ended
	for _, name := range names {
		lines := log(name)
		if !slices.Contains(strings.Fields(lines[1]), "--csi-address=unix://csi.sock") ||
			!slices.Contains(strings.Fields(lines[1]), "--kubeconfig=admin") {
			t.Errorf("%s has the flags %s", name, lines[1])
		}
		if len(lines) != 3 || lines[2] != "asked to end" {
			t.Errorf("%s: %q", name, lines)
		}
	}
}
