package truncate

import "strings"

// rest stands for what is left out.
const rest = " ..."

// Text returns a text, or its beginning if it has more bytes than most. The beginning ends in " ...", is valid UTF-8 if
// the text is, and has most bytes at most, which must be no fewer than these four.
func Text(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(rest)], "") + rest
}
