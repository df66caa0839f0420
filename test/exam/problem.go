package exam

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Problem is a question of the exam, with its answer.
type Problem struct {
	Title    string      `json:"title"`
	Like     string      `json:"like"`     // whose it is like, and what it is called there
	Ask      string      `json:"ask"`      // the argument of "why", such as deployment/web
	Cause    []Component `json:"cause"`    // any of these is right; none where nothing is wrong
	Mention  []string    `json:"mention"`  // what the summary must have, whatever the case; "a|b" is one of both
	Commands int         `json:"commands"` // how many commands of kubectl it takes by hand
	Alone    string      `json:"alone"`    // why no other problem may be there meanwhile
	Usage    string      `json:"usage"`    // of CPU by each container, as metrics tell it (default 50m)
	Steps    []Step      `json:"steps"`    // what happens after the objects were created
	Until    []Condition `json:"until"`    // what must be true before the question is asked

	Name    string           `json:"-"` // of the file
	Objects []map[string]any `json:"-"`
	text    string
}

// Component is an object that may be named as the cause.
type Component struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`      // may end with * for generated names
	Namespace string `json:"namespace"` // if it is not that of the problem
}

// Step is one thing that happens. It has one field.
type Step struct {
	Await   *Condition     `json:"await"`
	Create  map[string]any `json:"create"`
	Patch   *Patch         `json:"patch"`
	Delete  string         `json:"delete"` // kind/name
	Kubelet *Kubelet       `json:"kubelet"`
	Event   *Event         `json:"event"`

	Foreground string `json:"foreground"` // kind/name of what is deleted after its dependents
}

// Patch is a strategic merge patch.
type Patch struct {
	Object      string         `json:"object"` // kind/name
	Subresource string         `json:"subresource"`
	With        map[string]any `json:"with"`
}

// Kubelet is what kubelets say of pods. The pods have annotations that keep kwok away from them.
type Kubelet struct {
	Pods           string                   `json:"pods"`  // label selector
	Count          int                      `json:"count"` // how many there must be (default 1)
	Phase          corev1.PodPhase          `json:"phase"` // default Pending
	Reason         string                   `json:"reason"`
	Message        string                   `json:"message"`
	InitContainers []corev1.ContainerStatus `json:"initContainers"`
	Containers     []corev1.ContainerStatus `json:"containers"`
	Conditions     []corev1.PodCondition    `json:"conditions"` // that do not follow from the containers
	Events         []Event                  `json:"events"`     // about each pod
}

// Event is one that somebody else than the manager and the scheduler writes.
type Event struct {
	About   string `json:"about"` // kind/name; of pods of a kubelet it is not given
	From    string `json:"from"`  // default kubelet
	Type    string `json:"type"`  // default Warning
	Reason  string `json:"reason"`
	Message string `json:"message"` // $POD is the pod's name
}

// Condition is something that must become true: that a path in an object has a value, that the object is gone, that there is an event,
// or that an object would be refused, or be given a value.
type Condition struct {
	Object   string         `json:"object"` // kind/name, where the name may end with *: one of them
	Path     string         `json:"path"`   // as of kubectl --output jsonpath
	Equals   string         `json:"equals"`
	Contains string         `json:"contains"`
	Gone     bool           `json:"gone"`
	Event    string         `json:"event"` // its reason
	About    string         `json:"about"` // kind/name of the object of the event
	Try      map[string]any `json:"try"`   // an object to be created, but not really
}

//go:embed problems healthy
var files embed.FS

// Load reads all files of a folder.
func Load(folder string) ([]*Problem, error) {
	names, err := fs.Glob(files, path.Join(folder, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", folder, err)
	}
	var all []*Problem
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		p, err := parse(name, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// With returns the problem with values for what stands in the file, such as $NS.
func (p *Problem) With(values map[string]string) (*Problem, error) {
	text := p.text
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text = strings.ReplaceAll(text, "$"+name, values[name])
	}
	return parse(p.Name, text)
}

func parse(name, text string) (*Problem, error) {
	documents := strings.Split(strings.TrimPrefix(text, "---\n"), "\n---\n")
	p := &Problem{Name: name, text: text, Usage: "50m"}
	if err := yaml.UnmarshalStrict([]byte(documents[0]), p); err != nil {
		return nil, fmt.Errorf("the header of %s: %w", name, err)
	}
	for i, document := range documents[1:] {
		object := map[string]any{}
		if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
			return nil, fmt.Errorf("object %d of %s: %w", i+1, name, err)
		}
		p.Objects = append(p.Objects, object)
	}
	return p, nil
}

// split returns the kind and the name in kind/name.
func split(object string) (kind, name string, err error) {
	kind, name, ok := strings.Cut(object, "/")
	if !ok || kind == "" || name == "" {
		return "", "", fmt.Errorf("%q is not of the form kind/name", object)
	}
	return kind, name, nil
}

// matches reports whether a name is one that a pattern stands for.
func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return name == pattern
}
