package app

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

type says string

func (s says) Line() string          { return string(s) }
func (s says) WriteText(w io.Writer) { fmt.Fprintln(w, string(s)) }

// What tenants have written moves no cursor, and sets no title.
func TestAnswersAreHarmlessInATerminal(t *testing.T) {
	write, err := answerWriter("text")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := write(&out, says("Pod\tshop/a\x1b]0;title\a: ünready\u009b2J\r\n  next")); err != nil {
		t.Fatal(err)
	}
	if want := "Pod\tshop/a ]0;title : ünready 2J \n  next\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
