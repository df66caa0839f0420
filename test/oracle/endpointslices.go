package oracle

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// The managers of slices that are judged (EPS-6).
const (
	sliceController  = "endpointslice-controller.k8s.io"
	mirrorController = "endpointslicemirroring-controller.k8s.io"
)

// SlicesHaveEachPodOnce is S15: in the slices of a Service with a selector, each selected pod with an address is in exactly one slice of
// each family, and ready if and only if it is (EPS-27..29), within the lag L. A manager writes no slice that is managed by somebody else.
// Histories without slices of the endpointslice controller are not judged for what is missing, unless Options.Slices says that it runs.
func SlicesHaveEachPodOnce() Oracle {
	return Oracle{"S15", "endpoint slices show the pods", func(j *judge) hooks {
		s := &sliceJudge{judge: j, since: map[string]map[string]time.Time{}, dirty: map[string]bool{}}
		s.judging = j.o.Slices || slices.ContainsFunc(j.revisions, func(r *revision) bool {
			o, ok := r.Object.(*discoveryv1.EndpointSlice)
			return ok && o.Labels[discoveryv1.LabelManagedBy] == sliceController
		})
		return hooks{
			before: func(*revision) { s.look() },
			after:  s.after,
			end:    func() { s.look(); s.expire(nil) },
		}
	}}
}

// sliceJudge is what S15 remembers.
type sliceJudge struct {
	*judge
	judging bool
	looked  time.Time                       // when the problems were last looked for
	dirty   map[string]bool                 // services of which something has changed at that time or since
	since   map[string]map[string]time.Time // service -> problem -> since when it has been there
}

func (s *sliceJudge) after(r *revision) {
	switch o := r.Object.(type) {
	case *discoveryv1.EndpointSlice:
		s.dirty[serviceOf(o)] = true
		if old, ok := r.old.(*discoveryv1.EndpointSlice); ok {
			s.dirty[serviceOf(old)] = true
			o = old
		}
		if r.manager && (r.by == nil || !collects(r.by.Request)) { // garbage may be anybody's, see S16
			s.judges(false)
			if !managesSlices(o) {
				s.report(r, nil, "a manager has written a slice that is managed by %q", o.Labels[discoveryv1.LabelManagedBy])
			}
		}
	case *corev1.Service:
		s.dirty[r.key] = true
	case *corev1.Pod:
		for key, service := range s.services {
			old, _ := r.old.(*corev1.Pod)
			if selectsPod(service, o) || old != nil && selectsPod(service, old) {
				s.dirty[key] = true
			}
		}
	case *corev1.Node:
		for key := range s.services {
			s.dirty[key] = true
		}
	}
}

// look finds the problems that there are since the world has last changed, when time goes on, and reports those that are old.
func (s *sliceJudge) look() {
	if !s.judging {
		return
	}
	if !s.now.After(s.looked) {
		return
	}
	for key := range s.dirty {
		now := map[string]time.Time{}
		for _, problem := range s.problems(key) {
			now[problem] = s.looked
			if was, known := s.since[key][problem]; known {
				now[problem] = was
			}
		}
		s.since[key] = now
		if service := s.services[key]; service != nil && hasEndpoints(service) {
			s.judges(len(now) > 0) // what is wrong is excused by the lag, until it has been so for longer
		}
	}
	clear(s.dirty)
	s.looked = s.now
	s.expire(nil)
}

// expire reports the problems that have been there for longer than the lag.
func (s *sliceJudge) expire(*revision) {
	start := s.outages.of("", resources[Pod], resources[Service], resources[EndpointSlice], resources[Node], resources[Lease]).before(s.now,
		s.o.EndpointsLag)
	for _, key := range slices.Sorted(maps.Keys(s.since)) {
		for _, problem := range slices.Sorted(maps.Keys(s.since[key])) {
			if since := s.since[key][problem]; since.Before(start) && since.After(epoch) {
				s.judges(false)
				s.reportEnd(Service, key, []string{Service + "/" + key}, "%s since %s, for more than %v", problem,
					since.UTC().Format(time.TimeOnly), s.o.EndpointsLag)
				delete(s.since[key], problem)
			}
		}
	}
}

// problems are what is wrong with the slices of a service.
func (s *sliceJudge) problems(key string) (all []string) {
	service := s.services[key]
	if service == nil || !hasEndpoints(service) || service.DeletionTimestamp != nil {
		return nil
	}
	say := func(format string, values ...any) { all = append(all, fmt.Sprintf(format, values...)) }
	for _, family := range sliceFamilies(service) {
		in := map[string]int{} // pods by name
		for _, o := range s.slicesOf[key] {
			if o.Labels[discoveryv1.LabelManagedBy] != sliceController || o.AddressType != family || o.DeletionTimestamp != nil {
				continue
			}
			for i := range o.Endpoints {
				e := &o.Endpoints[i]
				if e.TargetRef == nil {
					say("an endpoint without a pod in a slice of family %s", family)
					continue
				}
				in[e.TargetRef.Name]++
				if wrong := s.wrongEndpoint(service, e, family); wrong != "" {
					say("pod %s is in a slice of family %s, but %s", e.TargetRef.Name, family, wrong)
				}
			}
		}
		for name, n := range in {
			if n > 1 {
				say("pod %s is in %d places of family %s", name, n, family)
			}
		}
		for _, p := range s.podsIn[service.Namespace] {
			if in[p.Name] == 0 && s.belongs(service, p.Pod, family) {
				say("pod %s is in no slice of family %s", p.Name, family)
			}
		}
	}
	return all
}

// wrongEndpoint says what is not true of a pod that is in a slice.
func (s *sliceJudge) wrongEndpoint(service *corev1.Service, e *discoveryv1.Endpoint, family discoveryv1.AddressType) string {
	p := s.pods[service.Namespace+"/"+e.TargetRef.Name]
	switch {
	case p == nil || p.UID != e.TargetRef.UID:
		return "there is no such pod"
	case !mayBeIn(service, p.Pod, family):
		return "ought not to be"
	case !slices.Equal(e.Addresses, addressesOf(p.Pod, family)):
		return "its addresses are others"
	}
	up := service.Spec.PublishNotReadyAddresses || ready(p.Pod) && p.DeletionTimestamp == nil
	if ptr.Deref(e.Conditions.Ready, true) != up || ptr.Deref(e.Conditions.Serving, true) != ready(p.Pod) ||
		ptr.Deref(e.Conditions.Terminating, false) != (p.DeletionTimestamp != nil) {
		return "its conditions are others"
	}
	return ""
}

// belongs reports whether a pod must be in the slices of a family (EPS-31).
func (s *sliceJudge) belongs(service *corev1.Service, p *corev1.Pod, family discoveryv1.AddressType) bool {
	placed := p.Spec.NodeName == "" || s.nodes[p.Spec.NodeName] != nil || service.Spec.PublishNotReadyAddresses
	return placed && mayBeIn(service, p, family)
}

// mayBeIn reports whether a pod may be in the slices of a family (EPS-27, EPS-28). When its node has gone it may stay until something
// else changes (EPS-18).
func mayBeIn(service *corev1.Service, p *corev1.Pod, family discoveryv1.AddressType) bool {
	return selectsPod(service, p) && !finished(p) && len(addressesOf(p, family)) > 0
}

func selectsPod(service *corev1.Service, p *corev1.Pod) bool {
	return hasEndpoints(service) && service.Namespace == p.Namespace &&
		labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(p.Labels))
}

// addressesOf are a pod's addresses of a family.
func addressesOf(p *corev1.Pod, family discoveryv1.AddressType) (all []string) {
	for _, each := range p.Status.PodIPs {
		if ip, err := netip.ParseAddr(each.IP); err == nil && (familyOf(ip) == 6) == (family == discoveryv1.AddressTypeIPv6) {
			all = append(all, ip.Unmap().String())
		}
	}
	return all
}

// sliceFamilies are the families that a service has slices of (EPS-24).
func sliceFamilies(service *corev1.Service) (all []discoveryv1.AddressType) {
	for _, f := range service.Spec.IPFamilies {
		all = append(all, discoveryv1.AddressType(f))
	}
	if len(all) > 0 {
		return all
	}
	if ip, err := netip.ParseAddr(service.Spec.ClusterIP); err == nil {
		if familyOf(ip) == 6 {
			return []discoveryv1.AddressType{discoveryv1.AddressTypeIPv6}
		}
		return []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4}
	}
	return []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}
}

// managesSlices reports whether a slice is one of the two controllers'.
func managesSlices(o Object) bool {
	by := o.GetLabels()[discoveryv1.LabelManagedBy]
	return by == sliceController || by == mirrorController
}

// serviceOf is the key of the service that a slice names.
func serviceOf(o Object) string {
	return strings.Join([]string{o.GetNamespace(), o.GetLabels()[discoveryv1.LabelServiceName]}, "/")
}
