package why

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteText writes an answer for people. The first line is the answer.
func (a Answer) WriteText(w io.Writer) {
	fmt.Fprintln(w, a.Summary)
	if len(a.Chain) > 1 {
		fmt.Fprintln(w)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for i, link := range a.Chain {
			fmt.Fprintf(table, "  %s%s\t%s\n", strings.Repeat("  ", i), link.Object, link.Says)
		}
		table.Flush()
	}
	var notes [][2]string
	if a.Cause != nil && a.Cause.Ends != "" {
		notes = append(notes, [2]string{"It ends when", a.Cause.Ends})
	}
	if d := a.Deletion; d != nil {
		rule := d.Rule
		if rule == "" {
			rule = "the API does not show by whom"
		}
		notes = append(notes, [2]string{"Deleted", fmt.Sprintf("%s: %s", d.Since.UTC().Format("2006-01-02 15:04:05Z"), rule)})
	}
	for _, name := range a.Unread {
		notes = append(notes, [2]string{"Not read", name})
	}
	if a.Source != "" {
		notes = append(notes, [2]string{"Source", a.Source})
	}
	writeNotes(w, notes)
}

// writeNotes writes lines with a title each, after an empty line.
func writeNotes(w io.Writer, notes [][2]string) {
	if len(notes) > 0 {
		fmt.Fprintln(w)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, note := range notes {
		fmt.Fprintf(table, "%s:\t%s\n", note[0], note[1])
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
	var notes [][2]string
	for _, name := range o.Unread {
		notes = append(notes, [2]string{"Not read", name})
	}
	if o.Source != "" {
		notes = append(notes, [2]string{"Source", o.Source})
	}
	writeNotes(w, notes)
}
