package generated

import "testing"

func TestReplace(t *testing.T) {
	const begin, end = "<!-- made by make x: begin -->\n", "<!-- made by make x: end -->\n"
	want := "a\n" + begin + "new\n" + end + "b\n"
	if got, err := Replace("a\n"+begin+"old\n"+end+"b\n", "make x", "new\n"); got != want || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, page := range []string{"a\n" + begin + "old\n", end + begin, "a\n"} {
		if _, err := Replace(page, "make x", "new\n"); err == nil {
			t.Errorf("no error for %q", page)
		}
	}
}
