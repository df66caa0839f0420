package proxy

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"
)

func TestLinkFreezesAndThaws(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	l, err := NewLink(echo.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", l.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	reader := bufio.NewReader(c)
	say := func(word string, patience time.Duration) error {
		if _, err := io.WriteString(c, word+"\n"); err != nil {
			return err
		}
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		got, err := reader.ReadString('\n')
		if err == nil && got != word+"\n" {
			t.Errorf("said %q, heard %q", word, got)
		}
		return err
	}
	if err := say("one", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	l.Freeze()
	l.Freeze() // once more does nothing
	if err := say("two", 100*time.Millisecond); err == nil {
		t.Error("it came through a frozen link")
	}
	l.Thaw()
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if got, err := reader.ReadString('\n'); got != "two\n" {
		t.Errorf("after the thaw: %q, %v", got, err)
	}
	l.Freeze()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := say("three", time.Second); err == nil {
		t.Error("it came through a closed link")
	}
}
