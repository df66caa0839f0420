package paging

import (
	"errors"
	"fmt"
	"testing"
)

func TestList(t *testing.T) {
	for name, c := range map[string]struct {
		token func(page int) string
		pages int // that are read; zero: as many as there are
	}{
		"one page":              {func(int) string { return "" }, 0},
		"many pages":            {func(page int) string { return map[bool]string{true: fmt.Sprint(page)}[page < 9000] }, 0},
		"the same token":        {func(int) string { return "again" }, 2},
		"tokens that come back": {func(page int) string { return fmt.Sprint(page % 7) }, 8},
		"always another token":  {func(page int) string { return fmt.Sprint(page) }, MostPages},
	} {
		var l List
		var err error
		page := 0
		for ended := false; !ended && err == nil; page++ {
			token := c.token(page)
			err, ended = l.Next(token), token == ""
		}
		if endless := errors.Is(err, ErrEndless); endless != (c.pages > 0) || endless && page != c.pages {
			t.Errorf("%s: %d pages, %v", name, page, err)
		}
	}
}
