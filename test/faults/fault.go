// Package faults is what can go wrong between a controller manager and the API server: the words in which scripts say it, and the
// code that decides which request or event a fault meets. The simulated network and the fault proxy both ask it, so a script
// means the same in virtual time and on a real control plane.
//
//	f, err := faults.Parse(line)   // fault m0 freeze pods for=10s
//	end := state.Begin(f)          // and when its time is over: end()
//	state.Sends(request)           // what becomes of a request
//	state.Watches(watch).Due(when) // when an event gets through
package faults

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/standalone-kcm/controller-manager/test/cluster/apirequest"
	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

// Fault is what a line of a script says that begins with "fault" and the process that it is for; m* stands for all:
//
//	delay RESOURCE TIME for=TIME        events come later
//	lag RESOURCE TIME for=TIME          the server's cache is behind: events come later, and lists may show the past
//	freeze RESOURCE for=TIME hide=true  events come not at all; hidden ones never, there is a relist instead
//	cut RESOURCE                        watches break
//	expire RESOURCE                     watches break, and cannot go on where they were
//	refuse n= each= code= after= resource= verb= for=
//	                                    requests fail, see below
//	slow TIME for=TIME resource=        requests take up to this time, each way
//	webhook TIME for=TIME resource=     creations wait up to this time between admission and storage
//	silent for=TIME                     the connection is open, and nothing gets through
//	vanish GROUP for=TIME               discovery, which all processes share, does not show an API group
//	down for=TIME                       the server cannot be reached
//	pause for=TIME                      the process stands still
//	crash writes=N after=true back=TIME resource= verb=
//	                                    the process dies at its N+1st write from now, and the next one begins later
//	stop back=TIME                      the process ends in good order
//
// RESOURCE is one, or "all"; without for= a fault lasts until all are healed, and without back= the next process begins after a second.
// The keys resource= and verb= narrow requests down: to a resource, which may have a subresource as in deployments/status, and to verbs
// of RBAC with commas between. Without them "refuse" is for all writes; verb=all is for reads as well. Leases and events are spared
// unless they are named, and only changes are refused with 409.
//
// "refuse" is for the next n requests, or with each=N for the first N that concern the same object with the same verb, or for all
// until its time is over. The code 0 breaks the connection and -1 never answers. With after=true the request is carried out, and
// its answer lost.
type Fault struct {
	Word     string
	Resource string // empty for all
	Group    string // of vanish
	Verbs    []string
	Time     time.Duration
	For      time.Duration
	Hide     bool

	Left  int // of refuse: how many requests; -1 for no limit
	Each  int // how many for each object; 0 for no limit
	Code  int
	After bool

	Writes int // of crash: that are still let through
	Back   time.Duration

	text string
}

// String is the fault as it was written.
func (f Fault) String() string { return cmp.Or(f.text, f.Word) }

// words says what follows each word: r a resource, t a time, g a group; and its keys.
var words = map[string]struct {
	args string
	keys []string
}{
	"delay":   {"rt", []string{"for"}},
	"lag":     {"rt", []string{"for"}},
	"freeze":  {"r", []string{"for", "hide"}},
	"cut":     {"r", nil},
	"expire":  {"r", nil},
	"refuse":  {"", []string{"n", "each", "code", "after", "resource", "verb", "for"}},
	"slow":    {"t", []string{"for", "resource"}},
	"webhook": {"t", []string{"for", "resource"}},
	"silent":  {"", []string{"for"}},
	"vanish":  {"g", []string{"for"}},
	"down":    {"", []string{"for"}},
	"pause":   {"", []string{"for"}},
	"crash":   {"", []string{"writes", "after", "back", "resource", "verb"}},
	"stop":    {"", []string{"back"}},
}

// Parse reads a line of a script that begins with "fault" and a process.
func Parse(l script.Line) (f Fault, err error) {
	if len(l.Words) < 3 || l.Op() != "fault" {
		return f, fmt.Errorf("a fault has the form: fault PROCESS WORD [ARGUMENT] [NAME=VALUE]")
	}
	f = Fault{Word: l.Words[2], Left: -1, Back: time.Second, text: strings.Join(l.Words[2:], " ")}
	wanted, known := words[f.Word]
	if !known {
		return f, fmt.Errorf("%s: there is no such fault", f)
	}
	args := 0
	for _, word := range l.Words[3:] {
		key, value, isKey := strings.Cut(word, "=")
		switch {
		case isKey && !slices.Contains(wanted.keys, key):
			return f, fmt.Errorf("%s: it has no %s=", f, key)
		case isKey:
			err = f.set(key, value)
		case args == len(wanted.args):
			return f, fmt.Errorf("%s: what is %q?", f, word)
		default:
			err = f.argument(wanted.args[args], word)
			args++
		}
		if err != nil {
			return f, fmt.Errorf("%s: %w", f, err)
		}
	}
	if args < len(wanted.args) {
		return f, fmt.Errorf("%s: something is missing", f)
	}
	return f, nil
}

func (f *Fault) argument(kind byte, word string) (err error) {
	switch kind {
	case 'r':
		return f.set("resource", word)
	case 'g':
		f.Group = word
	case 't':
		f.Time, err = time.ParseDuration(word)
	}
	return err
}

func (f *Fault) set(key, value string) (err error) {
	switch key {
	case "for":
		f.For, err = time.ParseDuration(value)
	case "back":
		f.Back, err = time.ParseDuration(value)
	case "hide":
		f.Hide, err = strconv.ParseBool(value)
	case "after":
		f.After, err = strconv.ParseBool(value)
	case "n":
		f.Left, err = strconv.Atoi(value)
	case "each":
		f.Each, err = strconv.Atoi(value)
	case "code":
		f.Code, err = strconv.Atoi(value)
	case "writes":
		f.Writes, err = strconv.Atoi(value)
	case "resource":
		if value != "all" {
			f.Resource = value
		}
	case "verb":
		f.Verbs = strings.Split(value, ",")
	}
	return err
}

// meets reports whether the fault is for such a request.
func (f *Fault) meets(r apirequest.Request) bool {
	if f.Resource != "" && f.Resource != r.Resource && f.Resource != r.Resource+"/"+r.Subresource {
		return false
	}
	if f.Resource == "" && isNoise(r) {
		return false
	}
	if f.Word == "refuse" && f.Code == 409 && r.Verb != "update" && r.Verb != "patch" {
		return false // nothing else is refused for its version
	}
	if len(f.Verbs) == 0 {
		return r.IsWrite()
	}
	return slices.Contains(f.Verbs, r.Verb) || f.Verbs[0] == "all"
}

// isNoise reports whether the request concerns events, leases or the managers' own accounts, whose number depends on time.
func isNoise(r apirequest.Request) bool {
	return r.IsNoise() || r.Resource == "serviceaccounts" && r.Namespace == metav1.NamespaceSystem
}

// IsWork reports whether the request changes what controllers work on.
func IsWork(r apirequest.Request) bool { return r.IsWrite() && !isNoise(r) }
