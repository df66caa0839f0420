package truncate

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
)

func TestText(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 8, ""}, {"12345678", 8, "12345678"}, {"123456789", 8, "1234 ..."}, {"äääää", 9, "ää ..."}, {"äääääxx", 9, "ää ..."},
		{"123456789", 4, " ..."},
	} {
		if got := Text(c.text, c.most); got != c.want {
			t.Errorf("%q of %q, want %q", got, c.text, c.want)
		}
	}
}

func TestTruncatedTextsAreShortAndBegin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, most := rapid.String().Draw(t, "text"), rapid.IntRange(4, 40).Draw(t, "most")
		got := Text(text, most)
		head, cut := strings.CutSuffix(got, rest)
		if len(got) > most || !utf8.ValidString(got) || got != text && !(cut && strings.HasPrefix(text, head)) {
			t.Fatalf("%q", got)
		}
	})
}
