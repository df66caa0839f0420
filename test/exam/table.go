package exam

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Table returns the results in Markdown.
func Table(all []Result) string {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Result) int { return cmp.Or(rank(a.Like)-rank(b.Like), strings.Compare(a.Title, b.Title)) })
	right, _, described := Count(all)
	commands := 0
	for _, r := range all {
		commands += r.Commands
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Of %d problems, `why` names %d. The conditions and events of the object that was asked about name %d. By hand it takes\n"+
		"%d commands in all, and `why` takes one for each problem.\n\n", len(all), right, described, commands)
	b.WriteString("| problem | like | asked | faulty component | `why` names it | `kubectl describe` names it | commands by hand |\n")
	b.WriteString("|---|---|---|---|---|---|---:|\n")
	for _, r := range all {
		var causes []string
		for _, c := range r.Cause {
			causes = append(causes, c.Kind+"/"+c.Name)
		}
		fmt.Fprintf(&b, "| %s | %s | `%s` | `%s` | %s | %s | %d |\n", r.Title, r.Like, r.Ask, causes[0], yes(r.Wrong == nil),
			yes(r.Described), r.Commands)
	}
	return readable.Replace(b.String())
}

// readable names objects as if their namespace had none of the names that a run makes up.
var readable = strings.NewReplacer("$NS-", "", "$NS.", "", "$NS", "NAMESPACE")

// rank puts our own problems first.
func rank(like string) int {
	return slices.IndexFunc([]string{"ours", "SREGym", "ITBench", ""}, func(prefix string) bool { return strings.HasPrefix(like, prefix) })
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}
