package list

import (
	"slices"
	"testing"
)

// A list has its elements in the order in which they were appended, whichever were removed and appended again.
func TestList(t *testing.T) {
	var l List[int]
	elements := make([]Element[int], 5)
	for i := range elements {
		elements[i].Value = i
		l.Append(&elements[i])
	}
	steps := []struct {
		again, out int // indexes of the element to move to the end, and of that to take out
		want       []int
	}{
		{0, 4, []int{1, 2, 3, 0}},
		{2, 1, []int{3, 0, 2}},
		{2, 0, []int{3, 2}},
	}
	for _, step := range steps {
		l.Remove(&elements[step.again])
		l.Append(&elements[step.again])
		l.Remove(&elements[step.out])
		var got []int
		for e := l.First(); e != nil; e = e.next {
			got = append(got, e.Value)
		}
		if !slices.Equal(got, step.want) || l.Len() != len(step.want) {
			t.Errorf("got %v of %d, want %v", got, l.Len(), step.want)
		}
	}
	if e := l.FirstWhere(func(i int) bool { return i == 2 }); e.Value != 2 {
		t.Errorf("%d has its turn", e.Value)
	}
	if e := l.FirstWhere(func(int) bool { return false }); e.Value != 3 {
		t.Errorf("none may, and it is the turn of %d", e.Value)
	}
	l.Remove(&elements[3])
	l.Remove(&elements[2])
	if l.First() != nil || l.FirstWhere(func(int) bool { return true }) != nil || l.Len() != 0 {
		t.Error("the list is not empty")
	}
}
