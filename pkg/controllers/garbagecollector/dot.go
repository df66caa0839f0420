package garbagecollector

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// drawing is a part of the graph, for people to see.
type drawing struct {
	uid    types.UID
	nodes  []node // copies
	stated map[statedOwner]ownerState
}

// draw copies the graph, or what is connected with the uids, so that it can be written without the lock.
func (g *graph) draw(uids ...types.UID) (all []drawing) {
	for _, uid := range g.connected(uids) {
		d := drawing{uid: uid}
		for n := range g.twins(uid) {
			copied, kind := *n, *n.kind
			copied.kind = &kind // it may be defined anew
			d.nodes = append(d.nodes, copied)
		}
		if o := g.owners[uid]; o != nil && len(o.stated) > 0 {
			d.stated = make(map[statedOwner]ownerState, len(o.stated))
			for c, s := range o.stated {
				d.stated[c] = s.ownerState
			}
		}
		all = append(all, d)
	}
	return all
}

// writeDot writes a drawing in the language of graphviz (GC-57), sorted by uid. Arrows go from dependents to owners.
func writeDot(w io.Writer, all []drawing) error {
	slices.SortFunc(all, func(a, b drawing) int { return cmp.Compare(a.uid, b.uid) })
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "strict digraph full {")
	for _, d := range all {
		fmt.Fprintf(out, "  %q [label=%q];\n", d.uid, d.label())
	}
	for _, d := range all {
		for _, n := range d.nodes {
			for _, ref := range n.owners {
				fmt.Fprintf(out, "  %q -> %q;\n", d.uid, ref.UID)
			}
		}
	}
	fmt.Fprintln(out, "}")
	return out.Flush() // the first error of all writes
}

// label describes a uid: all objects that have it, and the owners that are looked for under it.
func (d drawing) label() string {
	var text strings.Builder
	fmt.Fprintf(&text, "uid=%s\n", d.uid)
	for _, n := range d.nodes {
		fmt.Fprintf(&text, "namespace=%s\n%s %s\n%s\nbeingDeleted=%t waitingForDependents=%t\n",
			n.namespace, n.kind.GroupVersion(), n.kind.Kind, n.name, n.deleting, n.waiting())
	}
	for c, s := range d.stated {
		fmt.Fprintf(&text, "%s %s %s/%s: %s\n", c.apiVersion, c.kind, c.namespace, c.name, s)
	}
	return text.String()
}

// String implements fmt.Stringer.
func (s ownerState) String() string {
	return [...]string{"unverified", "absent", "not found", "present", "unresolvable"}[s]
}

// connected returns the uids that lead to or from the given ones; without any, all.
func (g *graph) connected(uids []types.UID) []types.UID {
	shown := map[types.UID]bool{}
	next := slices.DeleteFunc(slices.Clone(uids),
		func(uid types.UID) bool { return g.nodes[uid] == nil && g.owners[uid] == nil })
	if len(uids) == 0 {
		next = slices.AppendSeq(slices.Collect(maps.Keys(g.nodes)), maps.Keys(g.owners))
	}
	for len(next) > 0 {
		uid := next[0]
		if next = next[1:]; shown[uid] {
			continue
		}
		shown[uid] = true
		for n := range g.twins(uid) {
			for _, ref := range n.owners {
				next = append(next, ref.UID)
			}
		}
		if o := g.owners[uid]; o != nil {
			for d := range o.dependents {
				next = append(next, d.uid)
			}
		}
	}
	return slices.Collect(maps.Keys(shown))
}
