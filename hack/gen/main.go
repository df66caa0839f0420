// Command gen makes the files that follow from others: the roles under deploy/kustomize and the table of rights in
// docs/security.md, both from what the controllers and the manager declare (package rbac), the lists of controllers in pages, the
// alert rules for a manager beside the original, and the pictures of the pages.
//
//	go run ./hack/gen            write them
//	go run ./hack/gen --check    fail if one is not as it would be written
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
)

func main() {
	check := flag.Bool("check", false, "write nothing; fail if a file is out of date")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// file is one that is made, by its path from the top of the repository.
type file struct {
	path string
	make func(before []byte) ([]byte, error)
}

func run(check bool) error {
	drawn, err := pictures()
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range append(files(controllers.Registry()), drawn...) {
		errs = append(errs, f.update(check))
	}
	return errors.Join(errs...)
}

func (f file) update(check bool) error {
	before, err := os.ReadFile(f.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	after, err := f.make(before)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	switch {
	case bytes.Equal(before, after):
		return nil
	case check:
		return fmt.Errorf("%s is out of date: run 'go run ./hack/gen'", f.path)
	}
	fmt.Println(f.path)
	return os.WriteFile(f.path, after, 0o644)
}
