package cowmap

import (
	"encoding/json"
	"maps"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/standalone-kcm/controller-manager/internal/testing/plantest/fixedseed"
)

// Each version is what a map of its own would be, whatever becomes of later versions.
func TestVersions(t *testing.T) {
	type version struct {
		overlaid Map[string, int]
		plain    map[string]int
	}
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		base := rapid.MapOfN(keys, rapid.Int(), 0, 4).Draw(t, "base")
		versions := []version{{Of(maps.Clone(base)), base}}
		for range rapid.IntRange(0, 5).Draw(t, "versions") {
			last := versions[len(versions)-1]
			next := version{last.overlaid.Clone(), maps.Clone(last.plain)}
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				key := keys.Draw(t, "key")
				value := rapid.Int().Draw(t, "value")
				switch rapid.SampledFrom([]string{"set", "delete", "with", "without"}).Draw(t, "change") {
				case "delete":
					next.overlaid.Delete(key)
					delete(next.plain, key)
				case "without":
					next.overlaid = next.overlaid.Without(key)
					delete(next.plain, key)
				case "with":
					next.overlaid = next.overlaid.With(key, value)
					next.plain[key] = value
				default:
					next.overlaid.Set(key, value)
					next.plain[key] = value
				}
			}
			versions = append(versions, next)
		}
		for i, v := range versions {
			if all := maps.Collect(v.overlaid.All()); !maps.Equal(all, v.plain) {
				t.Errorf("version %d is %v, want %v", i, all, v.plain)
			}
			for _, key := range []string{"a", "b", "c", "d"} {
				want, has := v.plain[key]
				if got, ok := v.overlaid.Get(key); got != want || ok != has {
					t.Errorf("version %d has %s: %d, %t, want %d, %t", i, key, got, ok, want, has)
				}
			}
		}
	})
}

func TestStored(t *testing.T) {
	m := Of(map[string]int{"a": 1, "b": 2})
	m.Set("c", 3)
	m.Delete("a")
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var restored Map[string, int]
	if err := json.Unmarshal(text, &restored); err != nil {
		t.Fatal(err)
	}
	if all := maps.Collect(restored.All()); !maps.Equal(all, map[string]int{"b": 2, "c": 3}) {
		t.Errorf("%v", all)
	}
	for range m.All() { // which may end early
		break
	}
}
