// Package generated replaces the parts of pages that programs write.
package generated

import (
	"fmt"
	"strings"
)

// Replace returns a page with another text between the lines "<!-- made by COMMAND: begin -->" and "<!-- made by COMMAND: end -->".
func Replace(page, command, text string) (string, error) {
	begin, end := fmt.Sprintf("<!-- made by %s: begin -->\n", command), fmt.Sprintf("<!-- made by %s: end -->\n", command)
	before, rest, begins := strings.Cut(page, begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return "", fmt.Errorf("the page lacks the line %q or %q", begin, end)
	}
	return before + begin + text + end + after, nil
}
