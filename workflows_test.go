package tidy

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var (
	runsMake   = regexp.MustCompile(`(?m)\bmake ((?:[a-z-]+ ?)+)`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z-]+):`)
)

// TestWorkflows: what is under .github can be read, the targets that workflows make exist, and a workflow may write nothing but what a job
// says.
func TestWorkflows(t *testing.T) {
	var targets []string
	for _, match := range makeTarget.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets = append(targets, match[1])
	}
	made := 0
	err := filepath.WalkDir(".github", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasPrefix(filepath.Ext(path), ".y") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var content map[string]any
		if err := yaml.UnmarshalStrict(text, &content); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if rights, _ := content["permissions"].(map[string]any); content["jobs"] != nil && (len(rights) != 1 || rights["contents"] != "read") {
			t.Errorf("%s: the rights of all jobs are %v", path, rights)
		}
		for _, match := range runsMake.FindAllStringSubmatch(string(text), -1) {
			for _, target := range strings.Fields(match[1]) {
				if made++; !slices.Contains(targets, target) {
					t.Errorf("%s makes %s, which the Makefile does not have", path, target)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if made < 4 {
		t.Errorf("only %d targets found", made)
	}
}
