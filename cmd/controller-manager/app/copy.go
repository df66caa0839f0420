package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

const copyHelp = `Copy this program to a file, as executable as it is. An init container of the image does so, where a control plane
takes its programs from a folder: the image has no shell and no other program. A file that is there is replaced as a
whole, so a process that runs it works on.`

// newCopyCommand copies the program itself.
func newCopyCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "copy FILE",
		Short:   "Copy this program to a file, for init containers",
		Long:    copyHelp,
		Example: "  controller-manager copy /binaries/kube-controller-manager",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			program, err := os.Executable()
			if err == nil {
				err = copyProgram(program, args[0])
			}
			if err != nil {
				return fmt.Errorf("copy the program to %s: %w", args[0], err)
			}
			return nil
		},
	}
}

// copyProgram writes beside the target first, so that nobody starts half a program.
func copyProgram(program, target string) error {
	from, err := os.Open(program)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.CreateTemp(filepath.Dir(target), ".controller-manager-*")
	if err != nil {
		return err
	}
	defer os.Remove(to.Name()) // it has the name of the target by then, unless something went wrong
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Chmod(0o755), to.Close()); err != nil {
		return err
	}
	return os.Rename(to.Name(), target)
}
