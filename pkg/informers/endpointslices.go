package informers

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/cache"
)

const byService = "service" // slices, by the service that they name

// EndpointSliceCache finds slices by the service that they belong to.
type EndpointSliceCache struct {
	Store[*discoveryv1.EndpointSlice]
}

// EndpointSlices returns the cache of EndpointSlices, with an index by service, under the terms of [Objects].
func EndpointSlices(f *Factory, paths ...string) (EndpointSliceCache, error) {
	s, err := objects[*discoveryv1.EndpointSlice](f, cache.Indexers{byService: serviceOf}, paths)
	return EndpointSliceCache{s}, err
}

// Of returns the slices of a service, whoever manages them, in no order.
func (c EndpointSliceCache) Of(namespace, service string) []*discoveryv1.EndpointSlice {
	return c.by(byService, namespace, cache.NewObjectName(namespace, service).String())
}

// serviceOf is the index of slices by the key of the Service that they name.
func serviceOf(o any) ([]string, error) {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok || s.Labels[discoveryv1.LabelServiceName] == "" {
		return nil, nil
	}
	return []string{cache.NewObjectName(s.Namespace, s.Labels[discoveryv1.LabelServiceName]).String()}, nil
}
