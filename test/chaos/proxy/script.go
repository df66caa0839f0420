package proxy

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Script says which faults to inject. It is a text of one rule a line:
//
//	VERBS RESOURCES [KEY=VALUE ...] : ACTION [ARGUMENT]
//
// VERBS and RESOURCES are lists with commas. A verb is one of RBAC's, "event" for an event that a watch delivers, "write"
// for a write that is not noise ([Request.IsWrite]), or "*". A resource may have a subresource, as in
// deployments/status; "pods/*" means pods with and without one, "*" all.
//
// The keys narrow it down further:
//
//	agent=TEXT  namespace=TEXT  name=TEXT  what the user agent has in it; what namespace and name begin with
//	after=2s  for=10s                      when the rule holds, from the start of the script
//	nth=3                                  only the third request that matches all the above
//	every=5                                each fifth
//	p=0.1                                  one in ten, decided by the script's seed and the request's number
//	times=2                                no more than twice
//
// The first rule that matches is carried out:
//
//	delay D            a request is passed on, an event delivered, D later; the order of events is kept
//	freeze D           events: nothing is delivered for D, then all of it; a request waits like with delay
//	blackhole D        the whole connection is silent for D, both ways
//	drop D             events: all events of the watch for D are lost, then it ends with 410 Gone, so the client relists
//	gone               events: the watch ends with 410 Gone, after an ERROR event
//	cut                the connection is closed, before the request is passed on
//	reset              the request alone is broken off, before it is passed on
//	answer CODE [S]    the API server is not asked; S is Retry-After in seconds
//	commit timeout [D] the request is carried out, but the answer is 504 after D
//	commit cut         the request is carried out, then the connection is closed
//	commit hang D      the request is carried out, nothing is answered for D, then it is broken off
//	kill before        the request is carried out and the client killed before the answer
//	kill after         the request is carried out and the client killed right after the answer
//	upstream NAME      the request goes to another API server, see [Proxy.AddUpstream]
//
// Empty lines and what follows a # are ignored. A line "seed N" sets the seed.
type Script struct {
	Seed  uint64
	Rules []*Rule

	mu    sync.Mutex
	began time.Time
}

// Rule is one line of a script.
type Rule struct {
	text      string
	verbs     []string
	resources []string

	agent, namespace, name string

	after, lasts time.Duration
	nth, every   int
	p            float64
	times        int

	action Action

	matched, fired int // behind the script's lock
}

// String is the rule as it was written.
func (r *Rule) String() string { return r.text }

// Action is what a rule does.
type Action struct {
	Name     string // with its second word for commit and kill
	Duration time.Duration
	Code     int
	Seconds  int
	Upstream string
}

// Parse reads a script.
func Parse(text string) (*Script, error) {
	s := &Script{}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		line = strings.Join(strings.Fields(line), " ")
		if line == "" {
			continue
		}
		if seed, ok := strings.CutPrefix(line, "seed "); ok {
			n, err := strconv.ParseUint(seed, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			s.Seed = n
			continue
		}
		r, err := parseRule(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %q: %w", i+1, line, err)
		}
		s.Rules = append(s.Rules, r)
	}
	return s, nil
}

// String is the script as Parse reads it.
func (s *Script) String() string {
	var lines []string
	if s.Seed != 0 {
		lines = append(lines, fmt.Sprintf("seed %d", s.Seed))
	}
	for _, r := range s.Rules {
		lines = append(lines, r.text)
	}
	return strings.Join(lines, "\n")
}

func parseRule(line string) (*Rule, error) {
	match, action, ok := strings.Cut(line, " : ")
	if !ok {
		return nil, fmt.Errorf("no action: a rule is VERBS RESOURCES [KEY=VALUE ...] : ACTION")
	}
	fields := strings.Fields(match)
	if len(fields) < 2 {
		return nil, fmt.Errorf("a rule begins with verbs and resources")
	}
	r := &Rule{text: line, verbs: strings.Split(fields[0], ","), resources: strings.Split(fields[1], ",")}
	for _, field := range fields[2:] {
		key, value, ok := strings.Cut(field, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not KEY=VALUE", field)
		}
		if err := r.set(key, value); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	var err error
	r.action, err = parseAction(strings.Fields(action))
	return r, err
}

func (r *Rule) set(key, value string) (err error) {
	switch key {
	case "agent":
		r.agent = value
	case "namespace":
		r.namespace = value
	case "name":
		r.name = value
	case "after":
		r.after, err = time.ParseDuration(value)
	case "for":
		r.lasts, err = time.ParseDuration(value)
	case "nth":
		r.nth, err = strconv.Atoi(value)
	case "every":
		r.every, err = strconv.Atoi(value)
	case "times":
		r.times, err = strconv.Atoi(value)
	case "p":
		r.p, err = strconv.ParseFloat(value, 64)
	default:
		err = fmt.Errorf("unknown key")
	}
	return err
}

// actionWords says what follows the name of an action: d a duration, c a code, s seconds, u a name; in brackets if it may
// be left out.
var actionWords = map[string]string{
	"delay": "d", "freeze": "d", "blackhole": "d", "drop": "d", "gone": "", "cut": "", "reset": "", "answer": "c[s]",
	"commit timeout": "[d]", "commit cut": "", "commit hang": "d", "kill before": "", "kill after": "", "upstream": "u",
}

func parseAction(words []string) (a Action, err error) {
	if len(words) == 0 {
		return a, fmt.Errorf("no action")
	}
	a.Name, words = words[0], words[1:]
	if (a.Name == "commit" || a.Name == "kill") && len(words) > 0 {
		a.Name, words = a.Name+" "+words[0], words[1:]
	}
	wanted, known := actionWords[a.Name]
	if !known {
		return a, fmt.Errorf("unknown action %q", a.Name)
	}
	least := strings.Count(strings.SplitN(wanted, "[", 2)[0], "") - 1
	kinds := strings.NewReplacer("[", "", "]", "").Replace(wanted)
	if len(words) < least || len(words) > len(kinds) {
		return a, fmt.Errorf("action %q has %d arguments", a.Name, len(words))
	}
	for i, word := range words {
		switch kinds[i] {
		case 'd':
			a.Duration, err = time.ParseDuration(word)
		case 'c':
			a.Code, err = strconv.Atoi(word)
		case 's':
			a.Seconds, err = strconv.Atoi(word)
		case 'u':
			a.Upstream = word
		}
		if err != nil {
			return a, err
		}
	}
	return a, nil
}

// start begins the script's time. A script that has begun is not begun again.
func (s *Script) start(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began.IsZero() {
		s.began = now
	}
}

// decide returns the rule to carry out for a request, nil if there is none.
func (s *Script) decide(r Request, now time.Time) *Rule {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, rule := range s.Rules {
		if rule.matches(r, now.Sub(s.began)) && rule.fires(s.Seed, i) {
			return rule
		}
	}
	return nil
}

func (r *Rule) matches(request Request, since time.Duration) bool {
	switch {
	case since < r.after, r.lasts > 0 && since >= r.after+r.lasts:
	case !r.matchesVerb(request), !r.matchesResource(request):
	case !strings.Contains(request.Agent, r.agent):
	case !strings.HasPrefix(request.Namespace, r.namespace), !strings.HasPrefix(request.Name, r.name):
	default:
		return true
	}
	return false
}

func (r *Rule) matchesVerb(request Request) bool {
	return slices.ContainsFunc(r.verbs, func(v string) bool {
		return v == request.Verb || v == "write" && request.IsWrite() || v == "*" && request.Verb != "event"
	})
}

func (r *Rule) matchesResource(request Request) bool {
	return slices.ContainsFunc(r.resources, func(want string) bool {
		return want == "*" || want == request.path() || want == request.Resource+"/*"
	})
}

// fires counts a match and tells whether it is one to act on.
func (r *Rule) fires(seed uint64, index int) bool {
	r.matched++
	switch {
	case r.times > 0 && r.fired >= r.times:
	case r.nth > 0 && r.matched != r.nth:
	case r.every > 0 && r.matched%r.every != 0:
	case r.p > 0 && chance(seed, index, r.matched) >= r.p:
	default:
		r.fired++
		return true
	}
	return false
}

// chance is a number from 0 to 1 for each match of each rule. It does not depend on what other rules have matched, so that
// requests that overlap don't change it.
func chance(seed uint64, index, match int) float64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%d/%d", seed, index, match)
	x := h.Sum64() // the low bits are mixed best; mix them up
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}
