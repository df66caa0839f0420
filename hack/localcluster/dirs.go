package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// stateDir is the folder for built programs (bin) and for clusters (clusters). It belongs to the user, is shared by all
// work trees, and lies outside of them.
func stateDir() (string, error) {
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		var err error
		if cache, err = os.UserCacheDir(); err != nil {
			return "", fmt.Errorf("no cache folder: %w", err)
		}
	}
	dir := filepath.Join(cache, "controller-manager-localcluster")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, nil
}

// sourceDir finds the folder hack/localcluster, where the pinned modules are: it is the working directory or lies under it
// or under one of its parents.
func sourceDir() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		for _, candidate := range []string{dir, filepath.Join(dir, "hack", "localcluster")} {
			if fileExists(filepath.Join(candidate, "kwok", "go.mod")) {
				return candidate, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("hack/localcluster not found from %s upwards: run localcluster inside the work tree", wd)
		}
	}
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lockFile takes an exclusive lock that the kernel gives back when this process ends, however it ends. While another
// process holds it, busy is called once and lockFile waits.
func lockFile(ctx context.Context, path string, busy func()) (*os.File, error) {
	for waiting := false; ; {
		f, err := tryLockFile(path)
		if err != nil || f != nil {
			return f, err
		}
		if !waiting {
			waiting = true
			busy()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for %s: %w", path, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// tryLockFile is lockFile without the waiting: it returns nil if another process holds the lock.
func tryLockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}
