package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/standalone-kcm/controller-manager/pkg/manager"
)

// controllersPage has a row for each controller of the original.
const controllersPage = "docs/controllers.md"

var (
	// ofAll is how many controllers this build has.
	ofAll = regexp.MustCompile(`\*\*\d+ of the \d+\*\*`)
	// nameInCell is a name in a cell.
	nameInCell = regexp.MustCompile("^`([a-z0-9-]+)`$")
)

// The cells of a row.
const (
	nameCell = iota
	aliasCell
	defaultCell
	hereCell
	doesCell
	withoutCell
	cells
)

// markControllers says in each row of the page whether the registry has the controller, and where its page is. The page must have
// a row for each controller of the original, and no other. The aliases by name are those of the original.
func markControllers(page []byte, registry []manager.Controller, aliases, pages map[string]string) ([]byte, error) {
	here := map[string]manager.Controller{}
	for _, c := range registry {
		here[c.Name] = c
	}
	var errs []error
	left := maps.Clone(aliases)
	lines := strings.Split(string(page), "\n")
	for i, line := range lines {
		row := strings.Split(strings.Trim(line, "|"), "|")
		for j := range row {
			row[j] = strings.TrimSpace(row[j])
		}
		name := nameInCell.FindStringSubmatch(row[nameCell])
		if name == nil {
			continue
		}
		if _, ok := left[name[1]]; !ok {
			errs = append(errs, fmt.Errorf("%s is unknown to the original, or has two rows", name[1]))
			continue
		}
		delete(left, name[1])
		c, present := here[name[1]]
		if err := checkRow(row, aliases[name[1]], present && !c.OnByDefault()); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name[1], err))
			continue
		}
		if row[hereCell] = "no"; present {
			row[hereCell] = "yes"
			if pages[name[1]] != "" {
				row[hereCell] = "[yes](" + pages[name[1]] + ")"
			}
		}
		lines[i] = "| " + strings.Join(row, " | ") + " |"
	}
	if len(left) > 0 {
		errs = append(errs, fmt.Errorf("no row for %s", strings.Join(slices.Sorted(maps.Keys(left)), ", ")))
	}
	count := fmt.Sprintf("**%d of the %d**", len(registry), len(aliases))
	return ofAll.ReplaceAll([]byte(strings.Join(lines, "\n")), []byte(count)), errors.Join(errs...)
}

func checkRow(row []string, alias string, off bool) error {
	if len(row) != cells {
		return fmt.Errorf("the row has %d cells, want %d", len(row), cells)
	}
	want := "none"
	if alias != "" {
		want = "`" + alias + "`"
	}
	switch {
	case row[aliasCell] != want:
		return fmt.Errorf("the alias is %s, want %s", row[aliasCell], want)
	case row[doesCell] == "" || row[withoutCell] == "":
		return errors.New("a cell is empty")
	case off && !strings.HasPrefix(row[defaultCell], "off"):
		return fmt.Errorf("it is off by default, not %q", row[defaultCell])
	}
	return nil
}

// pagesOfControllers returns the page of each controller, by its name: the page in the folder that has the name before the first section.
func pagesOfControllers(folder string, registry []manager.Controller) (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil {
		return nil, err
	}
	pages := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		base := filepath.Base(path)
		before, _, _ := strings.Cut(string(text), "\n## ")
		for _, c := range registry {
			own := strings.ReplaceAll(cmp.Or(c.Alias, c.Name), "-", "") + ".md"
			if strings.Contains(before, "`"+c.Name+"`") && (pages[c.Name] == "" || base == own) {
				pages[c.Name] = base
			}
		}
	}
	return pages, nil
}
