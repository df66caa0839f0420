package job

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// indexes is a set of completion indexes: intervals in ascending order that neither overlap nor touch.
type indexes []interval

// interval is the indexes from first to last, both included.
type interval struct{ first, last int }

// parseIndexes reads a set such as "1,3-5,7", without the indexes from the limit on. What makes no sense is skipped
// (JOB-69).
func parseIndexes(text string, limit int) indexes {
	var all indexes
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err1 := parseIndex(from)
		last, err2 := parseIndex(to)
		if last = min(last, limit-1); err1 == nil && err2 == nil && first <= last {
			all = append(all, interval{first, last})
		}
	}
	return normalized(all)
}

// parseIndex reads a plain decimal number.
func parseIndex(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err == nil && strconv.FormatUint(n, 10) != text {
		err = strconv.ErrSyntax
	}
	return int(n), err
}

// normalized sorts intervals and joins those that overlap or touch.
func normalized(all indexes) (merged indexes) {
	slices.SortFunc(all,
		func(a, b interval) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.last, b.last)) })
	for _, next := range all {
		if n := len(merged); n > 0 && next.first <= merged[n-1].last+1 {
			merged[n-1].last = max(merged[n-1].last, next.last)
		} else {
			merged = append(merged, next)
		}
	}
	return merged
}

// with returns the set with further indexes.
func (s indexes) with(more ...int) indexes {
	if len(more) == 0 {
		return s
	}
	all := slices.Clone(s)
	for _, i := range more {
		all = append(all, interval{i, i})
	}
	return normalized(all)
}

// find returns the interval that has the index, or the first one after it.
func (s indexes) find(index int) (interval, bool) {
	at, _ := slices.BinarySearchFunc(s, index, func(i interval, index int) int { return cmp.Compare(i.last, index) })
	if at == len(s) {
		return interval{math.MaxInt, math.MaxInt}, false
	}
	return s[at], s[at].first <= index
}

// has reports whether an index is in the set.
func (s indexes) has(index int) bool {
	_, ok := s.find(index)
	return ok
}

// count is how many indexes the set has.
func (s indexes) count() (n int) {
	for _, i := range s {
		n += i.last - i.first + 1
	}
	return n
}

// String writes the set as the status has it: runs of three and more as "3-5".
func (s indexes) String() string {
	var b strings.Builder
	for _, i := range s {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(i.first))
		switch {
		case i.last == i.first+1:
			b.WriteString("," + strconv.Itoa(i.last))
		case i.last > i.first:
			b.WriteString("-" + strconv.Itoa(i.last))
		}
	}
	return b.String()
}

// covered counts the indexes that both sets have.
func (s indexes) covered(by indexes) (n int) {
	for _, i := range s {
		for at := i.first; at <= i.last; {
			other, ok := by.find(at)
			if other.first > i.last {
				break
			}
			if !ok {
				at = other.first
			}
			end := min(i.last, other.last)
			n += end - at + 1
			at = end + 1
		}
	}
	return n
}

// indexOf returns the completion index of a pod; ok is false if it has none (JOB-70).
func indexOf(p *corev1.Pod) (index int, ok bool) {
	index, err := parseIndex(p.Annotations[batchv1.JobCompletionIndexAnnotation])
	return index, err == nil
}

// failures is how often the pods of an index have failed before a pod was created, as its annotations say (JOB-67,
// JOB-68).
type failures struct{ counted, ignored int }

// failuresOf reads the annotations of a pod.
func failuresOf(p *corev1.Pod) failures {
	return failures{
		annotatedCount(p.Annotations[batchv1.JobIndexFailureCountAnnotation]),
		annotatedCount(p.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation]),
	}
}

// annotatedCount reads a number; what is none counts as zero.
func annotatedCount(text string) int {
	n, err := parseIndex(text)
	if err != nil {
		return 0
	}
	return n
}

// all is how often the index has failed, whether that counts or not.
func (f failures) all() int { return f.counted + f.ignored }
