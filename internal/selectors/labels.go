package selectors

import (
	"slices"
	"strings"
)

// Keys returns the keys of labels, sorted.
func Keys(selector map[string]string) []string {
	keys := make([]string, 0, len(selector))
	for key := range selector {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// Value is what objects with these labels are indexed under. No name, key or label value has a zero byte in it.
func Value(namespace string, keys []string, labels map[string]string) string {
	n := len(namespace)
	for _, key := range keys {
		n += len(key) + len(labels[key]) + 2
	}
	var b strings.Builder
	b.Grow(n)
	b.WriteString(namespace)
	for _, key := range keys {
		b.WriteByte(0)
		b.WriteString(key)
		b.WriteByte(0)
		b.WriteString(labels[key])
	}
	return b.String()
}

// HasAll reports whether the labels have all keys.
func HasAll(labels map[string]string, keys []string) bool {
	for _, key := range keys {
		if _, ok := labels[key]; !ok {
			return false
		}
	}
	return true
}
