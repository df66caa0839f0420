package endpointslice

import (
	"cmp"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// draft is a slice in the making.
type draft struct {
	old       *discoveryv1.EndpointSlice // nil: a new one
	endpoints []discoveryv1.Endpoint     // those of old, as long as nothing has changed
	changed   bool
}

// own makes the list of endpoints the draft's own before it is changed: until then it is that of a cached
// slice.
func (d *draft) own() {
	if !d.changed {
		d.endpoints, d.changed = slices.Clone(d.endpoints), true
	}
}

// group are the slices with one list of ports.
type group struct {
	// ports are those that all endpoints of the group serve.
	ports []discoveryv1.EndpointPort
	// drafts are its slices: those that there are, and new ones.
	drafts []*draft
	left   []discoveryv1.Endpoint // that are in no slice yet
	shrunk bool                   // one of its slices has lost an endpoint
}

// packing is how the endpoints of one address family are divided into slices.
type packing struct {
	*members
	// family is the type of the addresses that are packed.
	family discoveryv1.AddressType
	most   int // endpoints in a slice

	settled map[types.UID]bool // slices that need not be compared with pods
	dual    bool               // there is another family
	// groups are in the order of the lists of ports, which does not depend on that of the pods.
	groups []*group
	spare  []*discoveryv1.EndpointSlice // that have lost all their endpoints, or whose ports nobody serves
}

// pack divides the endpoints into slices, with few writes: what is in a slice stays there (EPS-35), what is new is put
// into slices that are written anyway (EPS-36), then to one that has room, or to new ones (EPS-37). Unlike the original
// it keeps slices within their size when the maximum is lowered, fills those that there are rather than to have too
// many, and merges them when endpoints go and too many are left (EPS-38, EPS-81).
func pack(m *members, family discoveryv1.AddressType, s snapshot, existing []*discoveryv1.EndpointSlice) *packing {
	p := &packing{members: m, family: family, most: max(1, s.Max), settled: s.Settled,
		dual: len(familiesOf(s.Service)) > 1}
	for _, ports := range m.ports {
		p.groups = append(p.groups, &group{ports: ports})
	}
	for i := range m.all {
		m.all[i].placed = false
	}
	for _, s := range existing {
		p.keep(s)
	}
	for i := range m.all {
		if !m.all[i].placed {
			p.leave(&m.all[i])
		}
	}
	drafts := 0
	for _, g := range p.groups {
		p.fill(g)
		drafts += len(g.drafts)
	}
	if drafts == 0 {
		p.placeholder()
	}
	return p
}

// keep keeps of a slice what still belongs there.
func (p *packing) keep(s *discoveryv1.EndpointSlice) {
	at := p.lookUp(s.Ports)
	if at < 0 {
		p.spare = append(p.spare, s)
		return
	}
	d := &draft{old: s, endpoints: s.Endpoints}
	if p.settled[s.UID] {
		p.settle(s)
		p.groups[at].drafts = append(p.groups[at].drafts, d)
		return
	}
	kept := 0
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		m := p.find(e)
		stays := m != nil && !m.placed && m.ports == at && kept < p.most
		var fresh discoveryv1.Endpoint
		same := stays && p.shows(e, m, p.family)
		if stays && !same {
			fresh, stays = p.endpoint(m, p.family)
		}
		if !same && !d.changed {
			d.endpoints, d.changed = slices.Clone(s.Endpoints[:kept]), true
		}
		if !stays {
			p.groups[at].shrunk = true
			continue
		}
		m.placed = true
		kept++
		if same && d.changed {
			d.endpoints = append(d.endpoints, *e)
		} else if !same {
			d.endpoints = append(d.endpoints, fresh)
		}
	}
	if kept == 0 {
		p.spare = append(p.spare, s)
		return
	}
	p.groups[at].drafts = append(p.groups[at].drafts, d)
}

// settle notes that the pods in a settled slice have their places. Only with two families can the plan have to look
// at such pods: because of their slices of the other family.
func (p *packing) settle(s *discoveryv1.EndpointSlice) {
	if !p.dual {
		return
	}
	for i := range s.Endpoints {
		if m := p.find(&s.Endpoints[i]); m != nil {
			m.placed = true
		}
	}
}

// leave notes a pod that is in no slice yet.
func (p *packing) leave(m *member) {
	if e, ok := p.endpoint(m, p.family); ok {
		g := p.groups[m.ports]
		g.left = append(g.left, e)
	}
}

// fill finds a place for what is left of a group.
func (p *packing) fill(g *group) {
	n := len(g.left)
	for _, d := range g.drafts {
		n += len(d.endpoints)
	}
	fewest := (n + p.most - 1) / p.most
	slices.SortFunc(g.left,
		func(a, b discoveryv1.Endpoint) int { return strings.Compare(a.TargetRef.Name, b.TargetRef.Name) })
	for len(g.left) > 0 {
		d := p.fullest(g, 1, true)
		if d == nil && len(g.left) < p.most {
			d = p.fullest(g, len(g.left), false)
		}
		if d == nil && len(g.drafts) >= mostSlices(fewest) {
			d = p.roomiest(g) // it has room, because there are more slices than the fewest
		}
		if d == nil {
			d = &draft{}
			g.drafts = append(g.drafts, d)
		}
		p.put(g, d)
	}
	if g.shrunk {
		p.merge(g, fewest)
	}
}

// mostSlices is how many slices there may be where so many would do.
func mostSlices(fewest int) int { return max(fewest+1, fewest*13/10) }

// merge dissolves slices while there are more than 1.3 times the fewest, and more than one above these: a pod that
// goes from a small service does not rewrite a second slice. Slices that are written anyway are merged in any case,
// which costs no write.
func (p *packing) merge(g *group, fewest int) {
	for len(g.drafts) > fewest {
		at := smallest(g)
		if len(g.drafts) <= mostSlices(fewest) && !p.mergesFree(g, at) {
			return
		}
		p.dissolve(g, at)
	}
}

// smallest returns the index of the slice with the fewest endpoints, a new one if possible.
func smallest(g *group) (at int) {
	for i, d := range g.drafts {
		if c := cmp.Compare(len(d.endpoints), len(g.drafts[at].endpoints)); c < 0 || c == 0 && d.old == nil {
			at = i
		}
	}
	return at
}

// mergesFree reports whether a slice is written anyway, and another such slice has room for all its endpoints.
func (p *packing) mergesFree(g *group, at int) bool {
	gone := g.drafts[at]
	return gone.changed && slices.ContainsFunc(g.drafts, func(d *draft) bool {
		return d != gone && d.changed && len(d.endpoints)+len(gone.endpoints) <= p.most
	})
}

// fullest returns the fullest slice with so much room, nil if there is none.
func (p *packing) fullest(g *group, room int, changed bool) (best *draft) {
	for _, d := range g.drafts {
		if d.changed == changed && len(d.endpoints)+room <= p.most &&
			(best == nil || len(d.endpoints) > len(best.endpoints)) {
			best = d
		}
	}
	return best
}

// put puts into a slice as many of those that are left as it has room for.
func (p *packing) put(g *group, d *draft) {
	n := min(len(g.left), p.most-len(d.endpoints))
	d.own()
	d.endpoints = append(d.endpoints, g.left[:n]...)
	g.left = g.left[n:]
}

// dissolve spreads a slice over the others: first those that are written anyway, then those with the most room. They
// have room enough, because they are no fewer than the fewest.
func (p *packing) dissolve(g *group, at int) {
	gone := g.drafts[at]
	g.drafts = slices.Delete(slices.Clone(g.drafts), at, at+1)
	if gone.old != nil {
		p.spare = append(p.spare, gone.old)
	}
	g.left = slices.Clone(gone.endpoints)
	for i := range g.left {
		g.left[i].Hints = nil // they depend on the slice
	}
	for len(g.left) > 0 {
		d := p.fullest(g, 1, true)
		if d == nil {
			d = p.roomiest(g)
		}
		p.put(g, d)
	}
}

// roomiest returns the slice with the fewest endpoints.
func (p *packing) roomiest(g *group) *draft {
	return slices.MinFunc(g.drafts, func(a, b *draft) int { return cmp.Compare(len(a.endpoints), len(b.endpoints)) })
}

// placeholder keeps one slice without endpoints and ports, where there would be none (EPS-41).
func (p *packing) placeholder() {
	g := &group{}
	p.groups = []*group{g}
	empty := func(s *discoveryv1.EndpointSlice) bool { return len(s.Endpoints) == 0 && len(s.Ports) == 0 }
	d := &draft{changed: true}
	if at := slices.IndexFunc(p.spare, empty); at >= 0 {
		d = &draft{old: p.spare[at]}
		p.spare = slices.Delete(slices.Clone(p.spare), at, at+1)
	}
	g.drafts = []*draft{d}
}
