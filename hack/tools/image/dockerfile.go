package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// image is what an image has: files, and how it is run.
type image struct {
	root, user, path string
	entrypoint       []string
	labels           map[string]string
}

// readImage makes of the Dockerfile what a builder would make of it, as far as the Dockerfile goes: it fails on an instruction that it
// does not know, and on one that needs another image. So what the image consists of is tested on machines without a builder. The
// files are written below dir.
func (o options) readImage(dir, platform string) (*image, error) {
	text, err := os.ReadFile(filepath.Join(o.repository, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	system, machine, _ := strings.Cut(platform, "/")
	args := map[string]string{"BINARY_FROM": o.from, "TARGETOS": system, "TARGETARCH": machine, "VERSION": o.version,
		"REVISION": o.revision}
	stages, last, err := readStages(string(text), args)
	if err != nil {
		return nil, err
	}
	return o.assemble(dir, stages, last)
}

// readStages returns the lines of each stage, with its base first and with arguments replaced, and the name of the last one.
func readStages(text string, args map[string]string) (stages map[string][][]string, last string, err error) {
	stages = map[string][][]string{}
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
		line = os.Expand(line, func(name string) string { return args[name] })
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(words[0], "#") || words[0] == "ARG":
			continue
		case words[0] == "FROM":
			if last = fmt.Sprint("stage ", len(stages)); len(words) > 3 && words[len(words)-2] == "AS" {
				last = words[len(words)-1]
			}
		case last == "":
			return nil, "", fmt.Errorf("%s before FROM", words[0])
		}
		stages[last] = append(stages[last], words)
	}
	if last == "" {
		return nil, "", errors.New("the Dockerfile has no stage")
	}
	return stages, last, nil
}

// assemble makes the image of a stage, and before it those that it needs.
func (o options) assemble(dir string, stages map[string][][]string, name string) (*image, error) {
	i := &image{root: filepath.Join(dir, name), labels: map[string]string{}}
	if err := errors.Join(os.RemoveAll(i.root), os.MkdirAll(i.root, 0o755)); err != nil { // a stage that is needed twice is made twice
		return nil, err
	}
	for _, words := range stages[name] {
		var err error
		switch argument := words[len(words)-1]; words[0] {
		case "FROM":
			err = o.begin(i, dir, stages, words)
		case "COPY":
			err = o.copy(i, dir, stages, words[1:])
		case "USER":
			i.user = argument
		case "ENTRYPOINT":
			err = json.Unmarshal([]byte(strings.Join(words[1:], " ")), &i.entrypoint)
		case "ENV":
			path, ok := strings.CutPrefix(argument, "PATH=")
			if i.path = path; !ok || len(words) != 2 {
				err = errors.New("no variable but PATH is known")
			}
		case "LABEL":
			key, value, ok := strings.Cut(argument, "=")
			if i.labels[key] = value; !ok || len(words) != 2 {
				err = errors.New("no label but key=value is known")
			}
		case "EXPOSE": // says something to people
		default:
			err = errors.New("the instruction is not known")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.Join(words, " "), err)
		}
	}
	return i, nil
}

// begin begins an image with what is in another one.
func (o options) begin(i *image, dir string, stages map[string][][]string, words []string) error {
	base := words[1]
	if base == "scratch" {
		return nil
	}
	if stages[base] == nil {
		return errors.New("it is another image")
	}
	from, err := o.assemble(dir, stages, base)
	if err != nil {
		return err
	}
	root := i.root
	*i = *from
	i.root = root
	return os.CopyFS(root, os.DirFS(from.root))
}

// copy copies the files of a folder, of another stage or of the repository.
func (o options) copy(i *image, dir string, stages map[string][][]string, words []string) error {
	from := o.repository
	if stage, ok := strings.CutPrefix(words[0], "--from="); ok {
		if stages[stage] == nil {
			return errors.New("it is another image")
		}
		other, err := o.assemble(dir, stages, stage)
		if err != nil {
			return err
		}
		from, words = other.root, words[1:]
	}
	if len(words) != 2 {
		return errors.New("one folder can be copied, without options")
	}
	return os.CopyFS(filepath.Join(i.root, words[1]), os.DirFS(filepath.Join(from, words[0])))
}
