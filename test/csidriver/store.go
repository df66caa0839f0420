package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
)

// Volume is one that the driver has.
type Volume struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"` // by which it is made only once
	Bytes      int64             `json:"bytes"`
	Namespace  string            `json:"namespace,omitempty"`  // of the claim that it was made for
	Claim      string            `json:"claim,omitempty"`      // the name of that claim
	Parameters map[string]string `json:"parameters,omitempty"` // of its StorageClass
	Attributes map[string]string `json:"attributes,omitempty"` // of its VolumeAttributesClass
	Nodes      []string          `json:"nodes,omitempty"`      // where it is attached, sorted
}

// volumeID is not the name, so that nobody takes the one for the other unnoticed.
func volumeID(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "vol-" + hex.EncodeToString(sum[:8])
}

// store holds the volumes. It is kept in a file, if it has one, so that a driver that is started again still has them.
type store struct {
	file string

	mu      sync.Mutex
	volumes map[string]Volume // by ID
}

func openStore(file string) (*store, error) {
	s := &store{file: file, volumes: map[string]Volume{}}
	if file == "" {
		return s, nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &s.volumes)
	}
	return s, err
}

// get returns a copy of a volume.
func (s *store) get(id string) (Volume, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.volumes[id]
	return v.copy(), ok
}

// list returns copies of all volumes, by name.
func (s *store) list() []Volume {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Volume, 0, len(s.volumes))
	for _, v := range s.volumes {
		all = append(all, v.copy())
	}
	slices.SortFunc(all, func(a, b Volume) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// edit lets a function change a volume, and stores what it returns unless that is an error. A nil result removes the volume. If
// there is no such volume, the function gets nil.
func (s *store) edit(id string, change func(*Volume) (*Volume, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *Volume
	if v, ok := s.volumes[id]; ok {
		v = v.copy()
		found = &v
	}
	changed, err := change(found)
	if err != nil {
		return err
	}
	next := maps.Clone(s.volumes)
	if changed == nil {
		delete(next, id)
	} else {
		next[id] = *changed
	}
	if err := s.write(next); err != nil {
		return err
	}
	s.volumes = next
	return nil
}

// write replaces the file in one step: a driver that is killed while it writes has the volumes of before or of after.
func (s *store) write(volumes map[string]Volume) error {
	if s.file == "" {
		return nil
	}
	data, err := json.Marshal(volumes)
	if err != nil {
		return err
	}
	return writeFile(s.file, string(data))
}

func (v Volume) copy() Volume {
	v.Parameters, v.Attributes, v.Nodes = maps.Clone(v.Parameters), maps.Clone(v.Attributes), slices.Clone(v.Nodes)
	return v
}
