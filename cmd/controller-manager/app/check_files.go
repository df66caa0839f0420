package app

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// expiresSoon is how long before its end a certificate is warned about.
const expiresSoon = 30 * 24 * time.Hour

// files reads all files that flags name, and says how long the certificates in them are valid.
func (c *checker) files() {
	for _, flag := range slices.Sorted(maps.Keys(c.Flags)) {
		is := strings.HasSuffix(flag, "-file") || strings.HasSuffix(flag, "kubeconfig")
		if value := c.Flags[flag]; value != "" && is {
			c.file("--"+flag, value)
		}
	}
}

// historyFolder says what --history-dir names. It is made at the start, if it is missing.
func (c *checker) historyFolder() {
	name := c.History.Dir
	if name == "" {
		return
	}
	switch info, err := os.Stat(name); {
	case errors.Is(err, fs.ErrNotExist):
		c.note("history", passes, "--history-dir: %s is not there yet, and is made at the start", name)
	case err != nil:
		c.note("history", fails, "--history-dir: %v", err)
	case !info.IsDir():
		c.note("history", fails, "--history-dir: %s is not a folder", name)
	default:
		c.note("history", passes, "--history-dir: %s, up to %s", name, c.History.Size.String())
	}
}

func (c *checker) file(flag, name string) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		c.note("files", fails, "%s: %v", flag, err)
		return
	case info.IsDir():
		c.note("files", fails, "%s: %s is a folder", flag, name)
		return
	}
	text, err := os.ReadFile(name)
	if err != nil {
		c.note("files", fails, "%s: %v", flag, err)
		return
	}
	says := fmt.Sprintf("%s: %s, changed %s", flag, name, info.ModTime().UTC().Format(time.DateOnly))
	ends, err := firstEnd(text)
	switch {
	case err != nil:
		c.note("files", fails, "%s: %s: %v", flag, name, err)
	case ends.IsZero():
		c.note("files", passes, "%s", says)
	case ends.Before(c.now):
		c.note("files", fails, "%s: its certificate has ended on %s", says, ends.UTC().Format(time.DateOnly))
	case ends.Sub(c.now) < expiresSoon:
		c.note("files", warns, "%s: its certificate ends on %s", says, ends.UTC().Format(time.DateOnly))
	default:
		c.note("files", passes, "%s; valid until %s", says, ends.UTC().Format(time.DateOnly))
	}
}

// firstEnd returns when the first of the certificates in a file ends; zero if there is none.
func firstEnd(text []byte) (first time.Time, err error) {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return first, nil
		}
		text = rest
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return first, fmt.Errorf("a certificate that cannot be read: %w", err)
		}
		if first.IsZero() || certificate.NotAfter.Before(first) {
			first = certificate.NotAfter
		}
	}
}
