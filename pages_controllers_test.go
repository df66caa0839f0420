package tidy

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/controllers"
)

var (
	sentenceEnd = regexp.MustCompile(`[.:;](?:\s+|$)|\s*\|\s*|\n\s*\n|\n\s*(?:- |\d+\. )`)
	missingSaid = regexp.MustCompile(`(?i)\b(does|do) not (yet )?have\b|\b(is|are) (still )?missing\b|\bstill missing\b|` +
		`\bthis build (does not|cannot)\b|\bnot in this build\b`)
	ofOriginal = regexp.MustCompile(`(?i)\bthe ([a-z/ -]+?) controller of (?:kube-controller-manager|the original)\b`)
	// others is said of what somebody else lacks, or an object.
	others = regexp.MustCompile(`(?i)^(if|when|where|while) |\bthe original (also )?(does|do|is)|kube-controller-manager does`)
)

// works says in words what some of the controllers do.
var works = map[string]*regexp.Regexp{
	"attachdetach":              regexp.MustCompile(`\battach(es)? (the )?volumes`),
	"csrsigning":                regexp.MustCompile(`\bsigns? certificates`),
	"garbagecollector":          regexp.MustCompile(`\bcollects? garbage`),
	"namespace":                 regexp.MustCompile(`\bempt(y|ies) namespaces`),
	"nodeipam":                  regexp.MustCompile(`\branges of addresses`),
	"nodelifecycle":             regexp.MustCompile(`\b(watch|watches|taints?) (the )?nodes|\bnodes keep a taint`),
	"persistentvolume-binder":   regexp.MustCompile(`\bbinds? (the )?volumes`),
	"persistentvolume-expander": regexp.MustCompile(`\b(expands?|resizes?) (the )?volumes`),
	"taint-eviction-controller": regexp.MustCompile(`\bevicts? (the )?pods`),
}

// aliases returns the names by which pages call the controllers of this build.
func aliases() (names []string) {
	for _, c := range controllers.Registry() {
		names = append(names, c.Name, cmp.Or(c.Alias, c.Name))
	}
	return names
}

// plainName is how a sentence names a controller: "node lifecycle" for node-lifecycle-controller.
func plainName(name string) string {
	return strings.NewReplacer("-", "", "/", "", " ", "").Replace(strings.TrimSuffix(strings.ToLower(name), "-controller"))
}

// wrongControllers finds sentences by which this build lacks a controller that the registry has.
func wrongControllers(_ *project, p page) (found []mistake) {
	present := aliases()
	text, _ := p.prose()
	from := 0
	for _, end := range append(sentenceEnd.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
		sentence, line := strings.Join(strings.Fields(text[from:end[0]]), " "), 1+strings.Count(text[:end[0]], "\n")
		from = end[1]
		for _, match := range ofOriginal.FindAllStringSubmatch(sentence, -1) {
			if slices.ContainsFunc(present, func(name string) bool { return plainName(name) == plainName(match[1]) }) {
				found = append(found, mistakenf(line, "the %s controller is in this build", match[1]))
			}
		}
		if !missingSaid.MatchString(sentence) || others.MatchString(sentence) {
			continue
		}
		for _, name := range quotedNames(sentence) {
			if slices.Contains(present, name) {
				found = append(found, mistakenf(line, "%s is in this build: %s", name, sentence))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(works)) {
			if slices.Contains(present, name) && works[name].MatchString(sentence) {
				found = append(found, mistakenf(line, "%s does this: %s", name, sentence))
			}
		}
	}
	return found
}

func TestWrongControllers(t *testing.T) {
	testCheck(t, wrongControllers, []pageCase{
		{"all is so", page{text: "This build does not have `evictionrequest-controller`. `job` runs Jobs. The original does not have `job`s."}, nil},
		{"it has the controller", page{text: "Still missing are `evictionrequest-controller`\nand `nodelifecycle`."},
			[]string{"nodelifecycle is in this build"}},
		{"it does the work", page{text: "This build does not bind volumes, so in a cluster\nnew nodes keep a taint."},
			[]string{"nodelifecycle does this", "persistentvolume-binder does this"}},
		{"among others",
			page{text: "There are controllers that this build does not have,\nsuch as those that watch nodes and attach volumes."},
			[]string{"attachdetach does this", "nodelifecycle does this"}},
		{"somebody else does", page{text: "It sets no taints: the node lifecycle controller of kube-controller-manager does."},
			[]string{"node lifecycle controller"}},
	})
}

var (
	leaseName   = regexp.MustCompile(`\blease[/ ]("?[\w$][\w.$-]*"?)`)
	leaseFlag   = regexp.MustCompile(`--leader-elect-resource-name=(\S+)`)
	leaseSet    = regexp.MustCompile(`^(# )?LEASE=(\S+)\s+# (.*)$`)
	leaseWrites = regexp.MustCompile(`^kubectl (-n \S+ |--namespace[ =]\S+ )?(annotate|patch|delete|edit|replace) lease`)
	overlayFile = regexp.MustCompile(`^deploy/kustomize/overlays/([^/]+)/kustomization.yaml$`)
	overlayName = regexp.MustCompile(`\b(beside-upstream|standalone|minimal)\b`)
)

// overlayLeases returns the lease for which the pods of each overlay compete.
func overlayLeases(r *project) map[string]string {
	leases := map[string]string{}
	for _, file := range r.files {
		if match := overlayFile.FindStringSubmatch(file); match != nil {
			leases[match[1]] = "kube-controller-manager"
			if set := leaseFlag.FindStringSubmatch(r.text(file)); set != nil {
				leases[match[1]] = set[1]
			}
		}
	}
	return leases
}

// besideSections are the parts of pages that are only about the mode beside the original.
var besideSections = map[string][]string{
	"deploy/README.md": {"Beside a kube-controller-manager", "The way back", "What else may move", "With k3s"},
}

// wrongLeases finds commands that change or name another lease than that of the mode that they are for. What is for all modes names
// $LEASE, after lines that set it for each. The lease that the original may have is set in a comment: whoever copies all lines must not
// change it unseen.
func wrongLeases(r *project, p page) (found []mistake) {
	leases := overlayLeases(r)
	sectionOf := sectionsByLine(p)
	set, remarked := map[string]bool{}, ""
	for _, s := range p.code() {
		if match := leaseSet.FindStringSubmatch(s.text); match != nil {
			for _, overlay := range overlayName.FindAllString(match[3], -1) {
				set[overlay] = true
				if leases[overlay] != match[2] {
					found = append(found, mistakenf(s.line, "the lease of %s is %s", overlay, leases[overlay]))
				}
			}
			if match[1] == "" && match[2] != leases["beside-upstream"] {
				found = append(found, mistakenf(s.line, "LEASE=%s is to be a comment: the original may have that lease", match[2]))
			}
			continue
		}
		if s.block && strings.HasPrefix(s.text, "#") {
			remarked = s.text
			continue
		}
		if flag := leaseFlag.FindStringSubmatch(s.text); flag != nil && s.block {
			for _, overlay := range overlayName.FindAllString(remarked, -1) {
				if leases[overlay] != flag[1] {
					found = append(found, mistakenf(s.line, "the lease of %s is %s, not %s", overlay, leases[overlay], flag[1]))
				}
			}
		}
		name := leaseName.FindStringSubmatch(s.text)
		if name == nil || !strings.HasPrefix(s.text, "kubectl ") && !strings.Contains(s.text, "$(kubectl") {
			continue
		}
		lease := strings.Trim(name[1], `"`)
		switch beside := slices.Contains(besideSections[p.path], sectionOf[s.line]); {
		case lease == "$LEASE" && len(set) < len(leases):
			found = append(found, mistakenf(s.line, "$LEASE is not set for each overlay: only for %v", slices.Sorted(maps.Keys(set))))
		case lease != "$LEASE" && !slices.Contains(slices.Collect(maps.Values(leases)), lease):
			found = append(found, mistakenf(s.line, "no overlay has the lease %s", lease))
		case leaseWrites.MatchString(s.text) && beside && lease != leases["beside-upstream"]:
			found = append(found, mistakenf(s.line, "beside the original the lease is %s", leases["beside-upstream"]))
		case leaseWrites.MatchString(s.text) && !beside && lease != "$LEASE":
			found = append(found, mistakenf(s.line, "%s is the lease of one mode only: use $LEASE", lease))
		}
	}
	return found
}

// sectionsByLine returns the heading under which each line stands.
func sectionsByLine(p page) map[int]string {
	sections, current := map[int]string{}, ""
	text, _ := p.prose()
	for i, line := range strings.Split(text, "\n") {
		if match := heading.FindStringSubmatch(line); match != nil {
			current = match[1]
		}
		sections[i+1] = current
	}
	return sections
}

func TestWrongLeases(t *testing.T) {
	const set = "    LEASE=standalone-controller-manager  # beside-upstream\n    # LEASE=kube-controller-manager  # standalone, minimal\n"
	const release = "    kubectl -n kube-system annotate lease \"$LEASE\" a=b\n"
	testCheck(t, wrongLeases, []pageCase{
		{"a lease for each mode", page{text: set + release + "    kubectl get lease kube-controller-manager\n"}, nil},
		{"the lease of one mode", page{text: "    kubectl -n kube-system annotate lease kube-controller-manager a=b\n"},
			[]string{"one mode only"}},
		{"the wrong one is set", page{text: strings.Replace(set, "beside-upstream", "minimal, beside-upstream", 1) + release},
			[]string{"lease of minimal is kube"}},
		{"not set for all", page{text: "    # LEASE=kube-controller-manager  # standalone, minimal\n" + release},
			[]string{"not set for each overlay"}},
		{"copied as a whole", page{text: strings.Replace(set, "# LEASE", "LEASE", 1) + release},
			[]string{"is to be a comment"}},
		{"beside the original",
			page{path: "deploy/README.md", text: "## The way back\n\n    kubectl delete lease kube-controller-manager\n"},
			[]string{"beside the original"}},
		{"by a flag", page{text: "    # minimal\n    bin/controller-manager --leader-elect-resource-name=standalone-controller-manager\n"},
			[]string{"lease of minimal"}},
		{"nobody's", page{text: "`kubectl get lease controller-manager`"}, []string{"no overlay has"}},
	})
}
