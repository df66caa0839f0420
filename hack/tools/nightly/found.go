package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// find is a random script that breaks a rule, shrunk.
type find struct {
	seed            uint64
	rule, violation string
	script          string
}

var (
	violated   = regexp.MustCompile(`seed (\d+): \d+ violations, the first one:\s+(\S+)(.*)`)
	notInNames = regexp.MustCompile(`[^A-Za-z0-9]+`)
)

// found reads what TestSeeds prints when a seed fails.
func found(output string) (f find, ok bool) {
	match := violated.FindStringSubmatch(output)
	_, rest, shrunk := strings.Cut(output, "this in the file:\n")
	if match == nil || !shrunk {
		return find{}, false
	}
	f = find{rule: match[2], violation: match[2] + match[3]}
	var err error
	if f.seed, err = strconv.ParseUint(match[1], 10, 64); err != nil {
		return find{}, false
	}
	var script strings.Builder
	for line := range strings.Lines(rest) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "seed" && words[0] != "set" && words[0] != "at" {
			break
		}
		fmt.Fprintln(&script, strings.TrimSpace(line))
	}
	f.script = script.String()
	return f, f.script != ""
}

// write writes the script into a folder of scripts.
func (f find) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := fmt.Sprintf("found-%s-%d.script", strings.Trim(notInNames.ReplaceAllString(f.rule, "-"), "-"), f.seed)
	return os.WriteFile(filepath.Join(dir, name), []byte("# "+f.violation+"\n"+f.script), 0o644)
}
