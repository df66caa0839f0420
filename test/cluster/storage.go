package cluster

import (
	"os"
	"path/filepath"
	"testing"
)

// Backup ends the API server and its storage, copies what is stored, and starts both again.
func (c *Cluster) Backup(t testing.TB) (backup string) {
	t.Helper()
	backup = filepath.Join(t.TempDir(), "backup")
	c.offline(t, func() error { return os.CopyFS(backup, os.DirFS(c.storage())) })
	return backup
}

// Restore puts what is stored back to a backup. Managers go on to run, and so do the scheduler and kwok, which do not notice it.
func (c *Cluster) Restore(t testing.TB, backup string) {
	t.Helper()
	c.offline(t, func() error {
		if err := os.RemoveAll(c.storage()); err != nil {
			return err
		}
		return os.CopyFS(c.storage(), os.DirFS(backup))
	})
}

// storage is the folder of etcd.
func (c *Cluster) storage() string { return filepath.Join(c.Dir, "etcd") }

// offline does something while neither the API server nor etcd runs.
func (c *Cluster) offline(t testing.TB, do func() error) {
	t.Helper()
	c.StopAPIServer(t)
	c.stopComponent(t, "etcd")
	if err := do(); err != nil {
		t.Fatal(err)
	}
	c.StartAPIServer(t)
}
