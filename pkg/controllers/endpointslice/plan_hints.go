package endpointslice

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/endpointslice/trafficdist"

	"github.com/standalone-kcm/controller-manager/internal/nodes"
	"github.com/standalone-kcm/controller-manager/pkg/plan"
)

// hintsAnnotation is the deprecated name of the annotation that asks for topology hints (EPS-48).
const hintsAnnotation = "service.kubernetes.io/topology-aware-hints"

const overload = 1.2 // how much of its share of traffic an endpoint may get (EPS-52)

// wantsTopology reports whether the service asks for hints by the share of each zone (EPS-48).
func wantsTopology(annotations map[string]string) bool {
	mode, ok := annotations[hintsAnnotation]
	if !ok {
		mode = annotations[corev1.AnnotationTopologyMode]
	}
	return mode == "Auto" || mode == "auto"
}

// cpuByZone returns the CPU that zones have, in millicores; nil if it is not known of all nodes, or there is only one
// zone (EPS-51).
func cpuByZone(nodes []*corev1.Node) map[string]int64 {
	cpu := map[string]int64{}
	for _, n := range nodes {
		if !countsForTopology(n) {
			continue
		}
		zone, milli := n.Labels[corev1.LabelTopologyZone], n.Status.Allocatable.Cpu().MilliValue()
		if zone == "" || milli <= 0 {
			return nil
		}
		cpu[zone] += milli
	}
	if len(cpu) < 2 {
		return nil
	}
	return cpu
}

// countsForTopology reports whether the CPU of a node counts: it is ready, and not for the control plane.
func countsForTopology(n *corev1.Node) bool {
	_, controlPlane := n.Labels["node-role.kubernetes.io/control-plane"]
	_, master := n.Labels["node-role.kubernetes.io/master"]
	return !controlPlane && !master && nodes.Ready(n)
}

// hint gives the endpoints of a family the hints that the service asks for. Slices that had no other reason to change
// may get one by it.
func (f *family) hint(s snapshot) {
	create, update := f.lists()
	before := s.Hinted && slices.ContainsFunc(f.existing, hasHints)
	if !wantsTopology(s.Service.Annotations) {
		// It filters the list of unchanged slices in place; setUpdates still needs all of them.
		_, update, unchanged := trafficdist.ReconcileHints(s.Service.Spec.TrafficDistribution, create, update,
			slices.Clone(f.unchanged))
		if before {
			f.disabled("Topology Aware Hints has been disabled")
		}
		f.setUpdates(update, unchanged)
		return
	}
	t := &topology{create: create, update: update, unchanged: f.unchanged, shares: map[string]share{},
		given: map[string]int{}}
	if refused := t.assign(s.CPU); refused != "" {
		f.disabled(refused)
		t.remove()
	} else if !before {
		f.events = append(f.events, plan.Event{
			Type: corev1.EventTypeNormal, Reason: "TopologyAwareHintsEnabled",
			Message: fmt.Sprintf("Topology Aware Hints has been enabled, addressType: %s", f.name),
		})
	}
	f.setUpdates(t.update, t.unchanged)
	f.dropNeedless()
}

// disabled adds the event that there are no hints, and why.
func (f *family) disabled(why string) {
	f.events = append(f.events, plan.Event{
		Type: corev1.EventTypeWarning, Reason: "TopologyAwareHintsDisabled",
		Message: fmt.Sprintf("%s, addressType: %s", why, f.name),
	})
}

// dropNeedless leaves slices alone whose new hints are those that they had.
func (f *family) dropNeedless() {
	needed := f.changes.Update[:0:0]
	for _, u := range f.changes.Update {
		if maps.Equal(u.Old.Labels, u.New.Labels) && equality.Semantic.DeepEqual(u.Old.Endpoints, u.New.Endpoints) &&
			equality.Semantic.DeepEqual(u.Old.Ports, u.New.Ports) {
			f.unchanged = append(f.unchanged, u.Old)
			continue
		}
		needed = append(needed, u)
	}
	f.changes.Update = needed
}

// share is what a zone is to get of the ready endpoints (EPS-52).
type share struct {
	most    int
	desired float64
}

// topology gives hints by the share of CPU that each zone has.
type topology struct {
	// These are the slices of a family, by what becomes of them.
	create, update, unchanged []*discoveryv1.EndpointSlice
	// shares say how many endpoints each zone is to get.
	shares map[string]share
	given  map[string]int // hints, by zone
}

// assign gives the hints, and returns why it cannot (EPS-52..54).
func (t *topology) assign(cpu map[string]int64) (refused string) {
	if refused = t.allocate(cpu); refused != "" {
		return refused
	}
	var stay []*discoveryv1.EndpointSlice
	for _, s := range t.unchanged {
		if t.stays(s) {
			stay = append(stay, s)
			continue
		}
		t.update = append(t.update, rewrite(s, slices.Clone(s.Endpoints)))
	}
	t.unchanged = stay
	for e := range t.written {
		e.Hints = nil
		if !ready(e) {
			continue
		}
		if e.Zone == nil || *e.Zone == "" {
			return "One or more endpoints do not have a zone specified"
		}
		t.given[*e.Zone]++
		e.Hints = hintFor(*e.Zone)
	}
	t.balance()
	return ""
}

// allocate computes the shares (EPS-52).
func (t *topology) allocate(cpu map[string]int64) (refused string) {
	if len(cpu) < 2 {
		return "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
	}
	n, total, sum := 0, int64(0), 0
	for _, list := range [][]*discoveryv1.EndpointSlice{t.create, t.update, t.unchanged} {
		for _, s := range list {
			for i := range s.Endpoints {
				if ready(&s.Endpoints[i]) {
					n++
				}
			}
		}
	}
	for _, milli := range cpu {
		total += milli
	}
	if len(cpu) > n {
		return fmt.Sprintf("Insufficient number of endpoints (%d endpoints, %d zones)", n, len(cpu))
	}
	least := map[string]int{}
	for zone, milli := range cpu {
		least[zone] = int(math.Ceil(float64(n) * float64(milli) / float64(total) / overload))
		sum += least[zone]
	}
	if sum > n {
		return fmt.Sprintf(
			"Unable to allocate minimum required endpoints to each zone without exceeding overload threshold (%d "+
				"endpoints, %d zones)", n, len(cpu))
	}
	for zone, milli := range cpu {
		desired := max(float64(n)*float64(milli)/float64(total), float64(least[zone]))
		t.shares[zone] = share{most: least[zone] + n - sum, desired: desired}
	}
	return ""
}

// stays reports whether a slice can keep its hints, and counts them if so (EPS-53).
func (t *topology) stays(s *discoveryv1.EndpointSlice) bool {
	here := map[string]int{}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if !ready(e) {
			continue
		}
		if e.Hints == nil || len(e.Hints.ForZones) == 0 {
			return false
		}
		for _, z := range e.Hints.ForZones {
			here[z.Name]++
		}
	}
	for zone, n := range here {
		if allowed, known := t.shares[zone]; !known || t.given[zone]+n > allowed.most {
			return false
		}
	}
	for zone, n := range here {
		t.given[zone] += n
	}
	return true
}

// balance moves hints from zones that have too many to those that lack some (EPS-54). A zone without nodes keeps none.
func (t *topology) balance() {
	excess := map[string]float64{}
	for zone, n := range t.given {
		excess[zone] = float64(n) - t.shares[zone].desired
	}
	for zone, allowed := range t.shares {
		excess[zone] = float64(t.given[zone]) - allowed.desired
	}
	zones := slices.Sorted(maps.Keys(excess))
	moves := map[string][]string{} // from a zone to others
	for {
		from := slices.MaxFunc(zones, func(a, b string) int { return cmp.Compare(excess[a], excess[b]) })
		to := slices.MinFunc(zones, func(a, b string) int { return cmp.Compare(excess[a], excess[b]) })
		give, take := excess[from], -excess[to]
		if give < 0.5 || take < 0.5 || give < 1 && take < 1 {
			break
		}
		excess[from]--
		excess[to]++
		moves[from] = append(moves[from], to)
	}
	for e := range t.written {
		if e.Hints == nil {
			continue
		}
		if to := moves[*e.Zone]; len(to) > 0 {
			e.Hints, moves[*e.Zone] = hintFor(to[0]), to[1:]
		}
	}
}

// written yields the endpoints of the slices that are written.
func (t *topology) written(yield func(*discoveryv1.Endpoint) bool) {
	for _, list := range [][]*discoveryv1.EndpointSlice{t.create, t.update} {
		for _, s := range list {
			for i := range s.Endpoints {
				if !yield(&s.Endpoints[i]) {
					return
				}
			}
		}
	}
}

// remove takes all hints off (EPS-56).
func (t *topology) remove() {
	var bare []*discoveryv1.EndpointSlice
	for _, s := range t.unchanged {
		if hasHints(s) {
			t.update = append(t.update, rewrite(s, slices.Clone(s.Endpoints)))
		} else {
			bare = append(bare, s)
		}
	}
	t.unchanged = bare
	for e := range t.written {
		e.Hints = nil
	}
}

// hintFor is the hint that an endpoint is for clients of a zone.
func hintFor(zone string) *discoveryv1.EndpointHints {
	return &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}
}

// ready reports whether an endpoint says that it is ready.
func ready(e *discoveryv1.Endpoint) bool { return is(e.Conditions.Ready, true) }

// hasHints reports whether any endpoint of a slice has hints.
func hasHints(s *discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool { return e.Hints != nil })
}
