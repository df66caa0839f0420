package app

import (
	"bytes"
	"io"
	"unicode"
)

// printable passes text for people on, without what a terminal would act upon: tenants decide what stands in names of
// owners, messages of events and values of fields.
type printable struct{ io.Writer }

// Write implements io.Writer. A character that is split between two writes is not passed on as it is.
func (p printable) Write(text []byte) (int, error) {
	clean := bytes.Map(func(c rune) rune {
		if unicode.IsControl(c) && c != '\n' && c != '\t' {
			return ' '
		}
		return c
	}, text)
	if _, err := p.Writer.Write(clean); err != nil {
		return 0, err
	}
	return len(text), nil
}
