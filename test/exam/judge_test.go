package exam

import (
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	quota := Object{"ResourceQuota", "shop", "pods"}
	answer := func(summary string, cause Object, certain bool) *Answer {
		return &Answer{APIVersion: version, Kind: "Answer", Summary: summary, Cause: &Reason{Object: cause, Certain: certain}}
	}
	right := answer("quota pods is used up for 3s", quota, true)
	causes := []Component{{Kind: "ResourceQuota", Name: "pods"}, {Kind: "Pod", Name: "web-*"}}
	problem := &Problem{Cause: causes, Mention: []string{"Pods", "quota|limit"}}
	silent := &Answer{APIVersion: version, Kind: "Answer", Summary: "all is as wanted"}
	for _, c := range []struct {
		name    string
		problem *Problem
		answers []*Answer
		wrong   string // what the error has; none if it is empty
		certain bool
	}{
		{"right", problem, []*Answer{right, right, right}, "", false},
		{"time passes", problem, []*Answer{right, answer("quota pods is used up for 1m4s", quota, true)}, "", false},
		{"a generated name", problem, []*Answer{answer("limit of pods", Object{"Pod", "shop", "web-abc"}, false)}, "", false},
		{"another component", problem, []*Answer{answer("quota pods", Object{"Node", "", "pods"}, false)}, "it names Node/pods", false},
		{"with certainty", problem, []*Answer{right, answer("quota pods", Object{"Node", "", "pods"}, true)}, "it names Node/pods", true},
		{"another namespace", problem, []*Answer{answer("quota pods", Object{"ResourceQuota", "other", "pods"}, false)}, "it names", false},
		{"not mentioned", problem, []*Answer{answer("pods are too many", quota, true)}, "does not have", false},
		{"not the same", problem, []*Answer{right, answer("the quota pods", quota, true)}, "answer 2 differs", false},
		{"two lines", problem, []*Answer{answer("quota\npods", quota, true)}, "not one line", false},
		{"no cause", problem, []*Answer{silent}, "names no cause", false},
		{"no answer", problem, nil, "no answer", false},
		{"of another version", problem, []*Answer{{Summary: "quota pods"}}, "it is of", false},
		{"nothing is wrong", &Problem{}, []*Answer{silent, silent}, "", false},
		{"a false alarm", &Problem{}, []*Answer{right}, "nothing is wrong", true},
	} {
		r := Judge(c.problem, "shop", c.answers)
		said := r.Wrong == nil && c.wrong == "" || r.Wrong != nil && c.wrong != "" && strings.Contains(r.Wrong.Error(), c.wrong)
		if !said || r.WrongCertain != c.certain {
			t.Errorf("%s: %v, certain: %v", c.name, r.Wrong, r.WrongCertain)
		}
	}
}

func TestDescribedBy(t *testing.T) {
	p := &Problem{Cause: []Component{{Kind: "ResourceQuota", Name: "pods"}}, Mention: []string{"quota"}}
	for text, want := range map[string]bool{"": false, "exceeded quota: pods": true, "exceeded quota": false, "pods": false} {
		if got := p.describedBy(text, Object{Kind: "Deployment", Name: "web"}); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if !p.describedBy("quota", Object{Kind: "ResourceQuota", Name: "pods"}) {
		t.Error("the object that was asked about is the component")
	}
}

func TestTable(t *testing.T) {
	p := func(title, like string) *Problem {
		return &Problem{Title: title, Like: like, Ask: "pod/a", Cause: []Component{{Kind: "Pod", Name: "a"}}, Commands: 2}
	}
	table := Table([]Result{{Problem: p("b", "SREGym: x"), Described: true}, {Problem: p("a", "ours")}})
	for _, want := range []string{"Of 2 problems, `why` names 2.", "4 commands in all",
		"| a | ours | `pod/a` | `Pod/a` | yes | no | 2 |\n| b | SREGym: x | `pod/a` | `Pod/a` | yes | yes | 2 |\n"} {
		if !strings.Contains(table, want) {
			t.Errorf("it lacks %q:\n%s", want, table)
		}
	}
}
