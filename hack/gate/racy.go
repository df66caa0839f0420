package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	startsGoroutines = regexp.MustCompile(`(?m)^\s*go |\.Go\(`)
	inABubble        = regexp.MustCompile(`"testing/synctest"`)
	hasLocks         = regexp.MustCompile(`sync\.(RW)?Mutex`)
	hasAny           = regexp.MustCompile(`(?m)^\s*go |\.Go\b|"sync`)
)

// controllers is where a lock guards a map that belongs to one controller. It is tried under the race detector by the simulation, and by
// the search.
const controllers = "pkg/controllers/"

// racy prints the packages in some folders that the gate tests under the race detector: those that start goroutines of their own, and
// those with a lock whose tests start some. With -all these are the packages that start goroutines or import package sync.
func racy(args []string) error {
	flags := flag.NewFlagSet("racy", flag.ContinueOnError)
	all := flags.Bool("all", false, "all that have to do with goroutines or locks")
	if err := flags.Parse(args); err != nil {
		return err
	}
	found, err := racyPackages(os.DirFS("."), *all, flags.Args())
	if err != nil {
		return err
	}
	for _, folder := range found {
		fmt.Println("./" + folder)
	}
	return nil
}

// uses is what the files of a package do.
type uses struct{ goroutines, locks, any, tested bool }

func racyPackages(files fs.FS, all bool, roots []string) ([]string, error) {
	packages := map[string]*uses{}
	for _, root := range roots {
		err := fs.WalkDir(files, root, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(file) != ".go" {
				return err
			}
			text, err := fs.ReadFile(files, file)
			if err != nil {
				return err
			}
			u := packages[path.Dir(file)]
			if u == nil {
				u = &uses{}
				packages[path.Dir(file)] = u
			}
			u.add(text, strings.HasSuffix(file, "_test.go"))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var found []string
	for folder, u := range packages {
		if all && u.any || u.goroutines || u.locks && u.tested && !strings.HasPrefix(folder, controllers) {
			found = append(found, folder)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("racy: no package starts goroutines")
	}
	slices.Sort(found)
	return found, nil
}

func (u *uses) add(text []byte, test bool) {
	if test {
		u.tested = u.tested || startsGoroutines.Match(text) || inABubble.Match(text)
		return
	}
	u.goroutines = u.goroutines || startsGoroutines.Match(text)
	u.locks = u.locks || hasLocks.Match(text)
	u.any = u.any || hasAny.Match(text)
}
