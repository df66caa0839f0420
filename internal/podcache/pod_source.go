package podcache

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/standalone-kcm/controller-manager/internal/listwatch"
	"github.com/standalone-kcm/controller-manager/internal/projection"
)

// NewInformer makes the informer of pods, which projects them while it decodes them. What the client keeps of a pod has
// to be known when the informer is started. The second result are the pods as they are stored: a lookup that uses
// little of most need not expand all ([Expanded]).
func NewInformer(
	client *listwatch.Client, name cache.InformerNameAndResource, resync time.Duration,
) (cache.SharedIndexInformer, cache.Indexer) {
	var informer cache.SharedIndexInformer
	shared := newInterner(nil)
	informer = cache.NewSharedIndexInformerWithOptions(listwatch.Deferred(func() (*cache.ListWatch, error) {
		source, err := newPodSource(client)
		if err != nil {
			return nil, fmt.Errorf("cache of pods: %w", err)
		}
		source.interner, source.known = shared, informer.GetIndexer()
		return client.Pods(source.list, source.watch, source.convert), nil
	}), &compactPod{}, cache.SharedIndexInformerOptions{
		ResyncPeriod: resync, Identifier: name,
		Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	return compactInformer{informer, shared}, informer.GetIndexer()
}

// podSource lists and watches the pods of all namespaces. Each pod is projected while it is decoded. If the cache has
// the pod in the same version, that object is used again: a list that is repeated, for example after a watch has
// expired, does not take the memory of all pods once more.
type podSource struct {
	rest rest.Interface // with the decoder for what is watched
	// mask cuts what nobody reads out of a message before it is decoded.
	mask     *projection.Mask
	decoder  *projection.PodDecoder
	project  func(whole *corev1.Pod) *corev1.Pod
	interner *interner
	// known is the cache: a list need not make pods anew that it has.
	known cache.Indexer
}

// newPodSource returns what lists and watches pods, without the parts that belong to an informer.
func newPodSource(c *listwatch.Client) (s podSource, err error) {
	p := c.Projection()
	s = podSource{mask: p.PodMask(), decoder: p.PodDecoder(), project: p.ProjectPod}
	pods := corev1.SchemeGroupVersion.WithKind("Pod")
	s.rest, err = c.REST(corev1.SchemeGroupVersion,
		projection.Kinds{pods: {Mask: s.mask, Decode: s.decoder.DecodeEvent}})
	return s, err
}

// list is for servers that cannot stream what there is as a watch. It decodes the list while it arrives. That may
// have all pods of the cluster in one answer, because servers ignore the limit when they answer from memory.
func (s *podSource) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	body, err := s.rest.Get().Resource("pods").VersionedParams(&o, scheme.ParameterCodec).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	list := &internalversion.List{}
	list.ListMeta, err = projection.ReadList(body, runtime.TypeMeta{APIVersion: "v1", Kind: "PodList"}, s.mask,
		func(item []byte) error {
			p, err := s.decoder.Decode(item)
			if err == nil {
				list.Items = append(list.Items, s.share(p))
			}
			return err
		})
	if errors.Is(err, projection.ErrUnusual) {
		return s.listWhole(ctx, o)
	}
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return list, nil
}

// listWhole lists pods in JSON, for example.
func (s *podSource) listWhole(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	whole := &corev1.PodList{}
	if err := s.rest.Get().Resource("pods").VersionedParams(&o, scheme.ParameterCodec).Do(ctx).Into(whole); err != nil {
		return nil, err
	}
	list := &internalversion.List{ListMeta: whole.ListMeta}
	for i := range whole.Items {
		list.Items = append(list.Items, s.share(s.project(&whole.Items[i])))
	}
	return list, nil
}

// watch begins a watch of pods.
func (s *podSource) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return s.rest.Get().Resource("pods").VersionedParams(&o, scheme.ParameterCodec).Watch(ctx)
}

// convert projects and shares the pod in an event of a watch.
func (s *podSource) convert(e watch.Event) watch.Event {
	switch o := e.Object.(type) {
	case projection.ProjectedPod:
		e.Object = s.share(o.Pod)
	case *corev1.Pod: // it came as JSON
		e.Object = s.share(s.project(o))
	}
	return e
}

// share returns the stored form of a pod that has just been projected, or that of the equal pod in the cache.
func (s *podSource) share(p *corev1.Pod) *compactPod {
	if o, ok, err := s.known.Get(p); err == nil && ok && p.ResourceVersion != "" {
		if c, ok := o.(*compactPod); ok && c.UID == p.UID && c.ResourceVersion == p.ResourceVersion {
			return c
		}
	}
	return s.interner.compact(p)
}
