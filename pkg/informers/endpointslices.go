package informers

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

const byService = "service" // slices, by the service that they name

// EndpointSliceCache finds slices by the service that they belong to.
type EndpointSliceCache struct {
	Store[*discoveryv1.EndpointSlice]
}

// EndpointSlices returns the cache of EndpointSlices, with an index by service, under the terms of [Objects].
func EndpointSlices(f informers.SharedInformerFactory) (EndpointSliceCache, error) {
	informer, err := informerOf[*discoveryv1.EndpointSlice](f)
	if err != nil {
		return EndpointSliceCache{}, err
	}
	s, err := newStore[*discoveryv1.EndpointSlice](informer, cache.Indexers{byService: serviceOf})
	return EndpointSliceCache{s}, err
}

// Of returns the slices of a service, whoever manages them, in no order.
func (c EndpointSliceCache) Of(namespace, service string) []*discoveryv1.EndpointSlice {
	return c.by(byService, cache.NewObjectName(namespace, service).String())
}

func serviceOf(o any) ([]string, error) {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok || s.Labels[discoveryv1.LabelServiceName] == "" {
		return nil, nil
	}
	return []string{cache.NewObjectName(s.Namespace, s.Labels[discoveryv1.LabelServiceName]).String()}, nil
}
