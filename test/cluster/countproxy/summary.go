package countproxy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

type tally struct {
	count, noOps int
}

// Row says how often a kind of request was made.
type Row struct {
	Request
	Count int
	NoOps int // accepted updates and patches that changed nothing
}

// Summary is a count of requests.
type Summary struct {
	Total   int
	Refused int // answered with a status of 400 or more
	NoOps   int
	Rows    []Row // by resource, verb and status
}

// Requests counts all requests, a watch when it began.
func (p *Proxy) Requests() Summary {
	return p.summary(func(Request) bool { return true })
}

// Writes counts all writes but those of events and leases.
func (p *Proxy) Writes() Summary {
	return p.summary(func(r Request) bool { return r.IsWrite() && !r.isNoise() })
}

// Reset begins counting anew.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.counts)
}

func (p *Proxy) summary(wanted func(Request) bool) Summary {
	p.mu.Lock()
	defer p.mu.Unlock()
	var s Summary
	for request, tally := range p.counts {
		if !wanted(request) {
			continue
		}
		s.Rows = append(s.Rows, Row{Request: request, Count: tally.count, NoOps: tally.noOps})
		s.Total += tally.count
		s.NoOps += tally.noOps
		if request.Code >= 400 {
			s.Refused += tally.count
		}
	}
	slices.SortFunc(s.Rows, func(a, b Row) int {
		return cmp.Or(
			cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(a.Group, b.Group),
			cmp.Compare(a.Subresource, b.Subresource),
			cmp.Compare(a.Verb, b.Verb),
			cmp.Compare(a.Code, b.Code),
		)
	})
	return s
}

// Count adds up the rows of a verb and a resource, such as "update" and "replicasets/status". An empty string stands for
// any.
func (s Summary) Count(verb, resource string) int {
	n := 0
	for _, row := range s.Rows {
		if (verb == "" || verb == row.Verb) && (resource == "" || resource == row.name()) {
			n += row.Count
		}
	}
	return n
}

// name is the row's resource with its subresource.
func (r Row) name() string {
	switch {
	case r.Resource == "":
		return "(other)"
	case r.Subresource != "":
		return r.Resource + "/" + r.Subresource
	}
	return r.Resource
}

// String is the summary as a table.
func (s Summary) String() string {
	var text strings.Builder
	out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(out, "COUNT\tNO-OPS\tCODE\tVERB\t  RESOURCE\n")
	for _, row := range s.Rows {
		fmt.Fprintf(out, "%d\t%d\t%d\t%s\t  %s\n", row.Count, row.NoOps, row.Code, row.Verb, row.name())
	}
	_ = out.Flush()
	fmt.Fprintf(&text, "%d requests, %d of them refused, %d without effect\n", s.Total, s.Refused, s.NoOps)
	return text.String()
}
