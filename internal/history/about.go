package history

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Bounds of one answer.
const (
	mostOfObject    = 200 // entries of the object, the newest
	mostOfAncestors = 50  // entries of each generation of owners
	mostGenerations = 6
	mostLost        = 5
)

// About returns what is known of the objects that had a name, and of their owners, and the owners of these: the newest
// entries, in the order of time. The kind is given in any case, without its group: of two groups, both are meant.
func (r *Recorder) About(ctx context.Context, about Ref) ([]Entry, error) {
	if err := r.readable(); err != nil {
		return nil, err
	}
	select {
	case r.reading <- struct{}{}:
		defer func() { <-r.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return read(ctx, r.Dir, about)
}

// read is About of a folder.
func read(ctx context.Context, dir string, about Ref) (all []Entry, err error) {
	texts := [][]byte{quoted("name", about.Name)}
	if about.Namespace != "" {
		texts = append(texts, append(quoted("namespace", about.Namespace), '}')) // and no name follows
	}
	found, err := search(ctx, dir, mostOfObject, texts,
		func(o Ref) bool { return o.named(about) || o.all(about) })
	if err != nil || !slices.ContainsFunc(found, func(e Entry) bool { return e.Object.Name != "" }) {
		return nil, err // that all objects of a kind were deleted says nothing of one that was never seen
	}
	known := map[types.UID]bool{}
	for generation := 0; ; generation++ {
		all = append(all, found...)
		next := map[types.UID]Ref{}
		for _, e := range found {
			for _, owner := range e.Owners {
				if owner.UID != "" && !known[owner.UID] {
					next[owner.UID], known[owner.UID] = owner, true
				}
			}
		}
		if len(next) == 0 || generation == mostGenerations {
			break
		}
		var texts [][]byte
		for uid := range next {
			texts = append(texts, quoted("uid", string(uid)))
		}
		found, err = search(ctx, dir, mostOfAncestors, texts, func(o Ref) bool {
			_, is := next[o.UID]
			return is && o.UID != ""
		})
		if err != nil {
			return nil, err
		}
	}
	lost, err := search(ctx, dir, mostLost, [][]byte{quoted("verb", string(Lost))},
		func(o Ref) bool { return o == Ref{} })
	all = append(all, lost...)
	byTime(all)
	return all, err
}

// search returns the last entries about some objects, of lines with one of some texts. A line that is no entry is left
// out.
func search(ctx context.Context, dir string, most int, texts [][]byte, is func(Ref) bool) (found []Entry, err error) {
	err = scan(ctx, dir, texts, func(line []byte) {
		var e Entry
		if json.Unmarshal(line, &e) != nil || !is(e.Object) {
			return
		}
		if found = append(found, e); len(found) > 2*most {
			found = slices.Delete(found, 0, len(found)-most)
		}
	})
	return found[max(0, len(found)-most):], err
}

// quoted is a field as it is in a line.
func quoted(field, value string) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		return nil // not reached: it is a string
	}
	return append([]byte(`"`+field+`":`), text...)
}

// named reports whether an object has the name, and the kind in any case.
func (r Ref) named(about Ref) bool {
	return r.Name == about.Name && r.Namespace == about.Namespace && strings.EqualFold(r.Kind, about.Kind)
}

// all reports whether all objects of the kind in the namespace are meant.
func (r Ref) all(about Ref) bool {
	return r.Name == "" && r.Namespace == about.Namespace && r.Namespace != "" && strings.EqualFold(r.Kind, about.Kind)
}

// byTime sorts entries, and leaves those of one time in their order.
func byTime(all []Entry) {
	slices.SortStableFunc(all, func(a, b Entry) int { return a.Time.Compare(b.Time) })
}
