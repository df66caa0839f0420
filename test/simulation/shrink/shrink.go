// Package shrink makes a failing script as short as it gets.
package shrink

import (
	"maps"
	"slices"

	"github.com/standalone-kcm/controller-manager/test/simulation/script"
)

// Script returns a script that still fails, without lines that don't matter to that: it tries without half of them, then
// without a quarter, and so on (delta debugging), and then without settings. It asks at most so many times.
func Script(s script.Script, tries int, fails func(script.Script) bool) script.Script {
	try := func(candidate script.Script) bool {
		if tries <= 0 {
			return false
		}
		tries--
		return fails(candidate)
	}
	for chunk := (len(s.Lines) + 1) / 2; chunk > 0 && tries > 0; {
		before := len(s.Lines)
		for from := 0; from < len(s.Lines); {
			shorter := s
			shorter.Lines = slices.Delete(slices.Clone(s.Lines), from, min(from+chunk, len(s.Lines)))
			if try(shorter) {
				s = shorter
			} else {
				from += chunk
			}
		}
		if chunk == 1 && len(s.Lines) == before {
			break
		}
		chunk = max(1, chunk/2)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Settings)) {
		simpler := s
		simpler.Settings = maps.Clone(s.Settings)
		delete(simpler.Settings, name)
		if try(simpler) {
			s = simpler
		}
	}
	return s
}
