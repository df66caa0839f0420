package garbagecollector

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// writeDot writes the graph, or what is connected with the uids, in the language of graphviz (GC-57). Arrows go from dependents to
// owners.
func (g *graph) writeDot(w io.Writer, uids ...types.UID) error {
	shown := g.connected(uids)
	if _, err := fmt.Fprintln(w, "strict digraph full {"); err != nil {
		return err
	}
	for _, uid := range shown {
		if _, err := fmt.Fprintf(w, "  %q [label=%q];\n", uid, g.label(uid)); err != nil {
			return err
		}
	}
	for _, uid := range shown {
		for n := range g.twins(uid) {
			for _, ref := range n.owners {
				if _, err := fmt.Fprintf(w, "  %q -> %q;\n", uid, ref.UID); err != nil {
					return err
				}
			}
		}
	}
	_, err := fmt.Fprintln(w, "}")
	return err
}

// label describes a uid: all objects that have it, and the owners that are looked for under it.
func (g *graph) label(uid types.UID) string {
	text := fmt.Sprintf("uid=%s\n", uid)
	for n := range g.twins(uid) {
		text += fmt.Sprintf("namespace=%s\n%s %s\n%s\nbeingDeleted=%t waitingForDependents=%t\n",
			n.namespace, n.kind.GroupVersion(), n.kind.Kind, n.name, n.deleting, n.waiting())
	}
	if o := g.owners[uid]; o != nil {
		for c, s := range o.stated {
			text += fmt.Sprintf("%s %s %s/%s: %s\n", c.apiVersion, c.kind, c.namespace, c.name, s)
		}
	}
	return text
}

// String implements fmt.Stringer.
func (s ownerState) String() string {
	return [...]string{"unverified", "absent", "not found", "present", "unresolvable"}[s]
}

// connected returns the uids that lead to or from the given ones, sorted; without any, all.
func (g *graph) connected(uids []types.UID) []types.UID {
	shown := map[types.UID]bool{}
	next := slices.DeleteFunc(slices.Clone(uids), func(uid types.UID) bool { return g.nodes[uid] == nil && g.owners[uid] == nil })
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
	return slices.Sorted(maps.Keys(shown))
}
