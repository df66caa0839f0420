package tidy

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// ourPath begins with a folder of the project, and not in the middle of another path.
	ourPath     = regexp.MustCompile(`(?:^|[^\w./@:<>-])(?:\./)?((?:cmd|deploy|docs|examples|hack|internal|pkg|test)/[\w.*<>+/-]*)`)
	fileName    = regexp.MustCompile(`^[\w.*<>/+-]+\.(go|md|yaml|json|mod)$`)
	placeholder = regexp.MustCompile(`<[^>]*>`)
	member      = regexp.MustCompile(`\.[A-Z]\w*$`)
)

// has reports whether the project has a file or folder of that path, in which * and <name> stand for any name.
func (r *project) has(name string) bool {
	name = strings.TrimSuffix(strings.TrimRight(name, ".,"), "/")
	if name == "" || r.folders[name] || r.known[name] {
		return true
	}
	return strings.ContainsAny(name, "*<") && (r.matches(r.known, name) || r.matches(r.folders, name))
}

func (r *project) matches(paths set, name string) bool {
	pattern := placeholder.ReplaceAllString(name, "*")
	for each := range paths {
		if ok, _ := path.Match(pattern, each); ok {
			return true
		}
	}
	return false
}

// wrongPaths finds paths of the project that do not exist, and names of files that no folder has.
func wrongPaths(r *project, p page) (found []mistake) {
	for i, line := range strings.Split(p.text, "\n") {
		for _, match := range ourPath.FindAllStringSubmatch(line, -1) {
			if name := member.ReplaceAllString(match[1], ""); !r.has(name) && !r.has(path.Join(path.Dir(p.path), name)) {
				found = append(found, mistakenf(i+1, "there is no %s", match[1]))
			}
		}
	}
	for _, s := range p.code() {
		if s.block || !fileName.MatchString(s.text) || ourPath.MatchString(s.text) || strings.HasPrefix(s.text, "/") {
			continue
		}
		name := strings.TrimPrefix(s.text, "./")
		if !r.has(name) && !r.has(path.Join(path.Dir(p.path), name)) && !r.hasNamed(name) && !slices.Contains(filesOfUsers, name) {
			found = append(found, mistakenf(s.line, "no folder has %s", s.text))
		}
	}
	return found
}

// filesOfUsers are names that pages give to files of other people.
var filesOfUsers = []string{"kube-controller-manager.yaml"}

// hasNamed reports whether a file in any folder has that name, which may begin with a part of its path.
func (r *project) hasNamed(name string) bool {
	pattern := placeholder.ReplaceAllString(name, "*")
	return slices.ContainsFunc(r.files, func(file string) bool {
		parts := strings.Split(file, "/")
		ok, _ := path.Match(pattern, strings.Join(parts[max(0, len(parts)-1-strings.Count(name, "/")):], "/"))
		return ok
	})
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// wrongLinks finds links to pages, and to sections of pages, that do not exist.
func wrongLinks(r *project, p page) (found []mistake) {
	text, _ := p.prose()
	for i, line := range strings.Split(text, "\n") {
		for _, match := range link.FindAllStringSubmatch(line, -1) {
			target, section, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, ":") {
				continue // elsewhere
			}
			file := p.path
			if target != "" {
				file = path.Join(path.Dir(p.path), target)
			}
			if !r.has(file) {
				found = append(found, mistakenf(i+1, "a link leads to %s, which does not exist", file))
				continue
			}
			other := p.text
			if file != p.path {
				other = r.text(file)
			}
			if section != "" && path.Ext(file) == ".md" && !slices.Contains(sections(other), section) {
				found = append(found, mistakenf(i+1, "a link leads to #%s, which %s does not have", section, file))
			}
		}
	}
	return found
}

// sections returns what links call the headings of a page.
func sections(text string) (names []string) {
	text, _ = page{text: text}.prose()
	for _, match := range heading.FindAllStringSubmatch(text, -1) {
		names = append(names, strings.ReplaceAll(strings.ToLower(dropped.ReplaceAllString(match[1], "")), " ", "-"))
	}
	return names
}

func TestWrongPaths(t *testing.T) {
	testCheck(t, wrongPaths, []pageCase{
		{"all exist",
			page{text: "`pkg/plan`, `internal/*/sums`, pkg/controllers/<name>/controller.go, `observe*.go`, `pkg/plan.Change` and\n" +
				"`registry.go` in test/oracle. Not ours: k8s.io/x/pkg/y, <https://example.com/test/x>"}, nil},
		{"a file has moved", page{text: "\n`test/bench/floor.go` and `internal/listwatch/paced.go`"},
			[]string{"test/bench/floor.go", "paced.go"}},
		{"a folder is gone, in a command", page{text: "    go test ./pkg/engine/...\n"}, []string{"pkg/engine"}},
		{"a name without a folder", page{text: "`nosuch.go`"}, []string{"nosuch.go"}},
		{"a name with a wildcard", page{text: "docs/nosuch*.md"}, []string{"nosuch"}},
	})
}

func TestWrongLinks(t *testing.T) {
	testCheck(t, wrongLinks, []pageCase{
		{"all exist", page{text: "# A b\n[a](parity.md), [b](../deploy/README.md#with-k3s), [c](#a-b), [d](https://x.example/#y)"}, nil},
		{"no page", page{text: "[a](nosuch.md)"}, []string{"docs/nosuch.md"}},
		{"no section", page{text: "[a](parity.md#nosuch) [b](#nosuch)"}, []string{"docs/parity.md", "docs/operations.md"}},
	})
}
