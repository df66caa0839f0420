package why

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Line returns the answer in one line.
func (a Answer) Line() string { return a.Summary }

// Line returns the answer in one line, with what each object lacks.
func (o Overview) Line() string {
	line := o.Summary
	for _, a := range o.Answers {
		line += "; " + a.Summary
	}
	return line
}

// Line returns the answer in one line, with the objects.
func (d Deletions) Line() string {
	line := d.Summary
	for _, item := range d.Items {
		line += "; " + item.Object.String()
	}
	return line
}

// WriteText writes an answer for people. The first line is the answer.
func (a Answer) WriteText(w io.Writer) {
	fmt.Fprintln(w, a.Summary)
	if len(a.Chain) > 1 {
		fmt.Fprintln(w)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for i, link := range a.Chain {
			fmt.Fprintf(table, "  %s%s\t%s\n", strings.Repeat("  ", i), oneLine(link.Object.String()), link.Says)
		}
		table.Flush()
	}
	var notes [][2]string
	if a.Cause != nil && a.Cause.Ends != "" {
		notes = append(notes, [2]string{"It ends when", a.Cause.Ends})
	}
	for _, d := range a.Decisions {
		notes = append(notes, [2]string{"Decided", d.text(a.Time.Time)})
	}
	if d := a.Deletion; d != nil {
		rule := d.Rule
		if rule == "" {
			rule = "the API does not show by whom"
		}
		notes = append(notes, [2]string{"Deleted", fmt.Sprintf("%s: %s", d.Since.UTC().Format("2006-01-02 15:04:05Z"),
			rule)})
	}
	writeNotes(w, sourceNotes(notes, a.Unread, a.Source))
}

// text says for people what a controller has decided.
func (d Decision) text(now time.Time) string {
	text := fmt.Sprintf("%s about %s, %s ago: %s", d.Controller, d.Object, short(max(0, now.Sub(d.Time.Time))), d.Why)
	switch {
	case d.Inferred && len(d.Steps) > 0:
		text += " (as an observer would, which has not seen it done)"
	case d.Inferred:
		text += " (as an observer sees it)"
	}
	if d.Held != "" {
		text += "; held: " + d.Held
	}
	if d.Error != "" {
		text += fmt.Sprintf("; failed %d times: %s", d.Failures, d.Error)
	}
	next := d.Time.Add(time.Duration(d.NextSeconds * float64(time.Second)))
	if d.NextSeconds > 0 && next.After(now) {
		text += "; looks again in " + short(next.Sub(now))
	}
	return text
}

// sourceNotes adds what an answer stands on.
func sourceNotes(notes [][2]string, unread []string, source string) [][2]string {
	for _, name := range unread {
		notes = append(notes, [2]string{"Not read", name})
	}
	if source != "" {
		notes = append(notes, [2]string{"Source", source})
	}
	return notes
}

// writeNotes writes lines with a title each, after an empty line.
func writeNotes(w io.Writer, notes [][2]string) {
	if len(notes) > 0 {
		fmt.Fprintln(w)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, note := range notes {
		fmt.Fprintf(table, "%s:\t%s\n", note[0], oneLine(note[1])) // names that tenants choose may have many lines
	}
	table.Flush()
}

// WriteText writes an overview for people: a line for each object, the worst first.
func (o Overview) WriteText(w io.Writer) {
	fmt.Fprintln(w, o.Summary)
	if len(o.Answers) > 0 {
		fmt.Fprintln(w)
	}
	for _, a := range o.Answers {
		fmt.Fprintf(w, "  %s\n", a.Summary)
	}
	writeNotes(w, sourceNotes(nil, o.Unread, o.Source))
}

// WriteText writes deletions for people: a line for each object, in the order of time.
func (d Deletions) WriteText(w io.Writer) {
	fmt.Fprintln(w, d.Summary)
	if len(d.Items) > 0 {
		fmt.Fprintln(w)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, item := range d.Items {
		fmt.Fprintf(table, "  %s\t%s\t%s\n", item.Object, item.at(d.Time.Time), oneLine(item.says()))
	}
	table.Flush()
	writeNotes(w, sourceNotes(nil, d.Unread, d.Source))
}

// at says when an object goes, or since when it does.
func (p PendingDeletion) at(now time.Time) string {
	switch {
	case p.Since != nil:
		return "for " + short(now.Sub(p.Since.Time))
	case p.At != nil && p.At.After(now):
		return "in " + short(p.At.Sub(now))
	}
	return "now"
}

// says is the rule, and what holds the object.
func (p PendingDeletion) says() string {
	if len(p.HeldBy) == 0 || p.Since == nil {
		return p.Rule
	}
	return fmt.Sprintf("%s; held by %s", p.Rule, strings.Join(p.HeldBy, ", "))
}
