package projection

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ProjectedPod is a pod that was projected when it was decoded. Its type distinguishes it from a pod that came as JSON
// and is whole.
type ProjectedPod struct{ *corev1.Pod }

// PodDecoder decodes pods and projects them. It decodes into the same few objects again and again, so that it
// allocates only what is kept. It may be used concurrently.
type PodDecoder struct {
	projection *Projection
	unused     sync.Pool
}

// PodDecoder returns a decoder of what the mask has left of pods.
func (p *Projection) PodDecoder() *PodDecoder { return &PodDecoder{projection: p} }

// PodMask returns the mask of pods.
func (p *Projection) PodMask() *Mask { return p.masks[podKind].Mask }

// DecodeEvent decodes the object of a watch event, a pod or a bookmark, to a [ProjectedPod].
func (d *PodDecoder) DecodeEvent(masked []byte) (runtime.Object, error) {
	p, err := d.Decode(masked)
	if err != nil {
		return nil, err
	}
	return ProjectedPod{p}, nil
}

// Decode decodes a pod in protobuf, of which [Projection.PodMask] has left the fields that are kept.
func (d *PodDecoder) Decode(masked []byte) (*corev1.Pod, error) {
	p, ok := d.unused.Get().(*corev1.Pod)
	if !ok {
		p = &corev1.Pod{}
	}
	defer func() {
		spec, status := &p.Spec, &p.Status
		*p = corev1.Pod{ // keep the arrays of the lists whose elements fit copies
			Spec: corev1.PodSpec{Containers: spec.Containers[:0], InitContainers: spec.InitContainers[:0],
				Volumes: spec.Volumes[:0]},
			Status: corev1.PodStatus{Conditions: status.Conditions[:0], ContainerStatuses: status.ContainerStatuses[:0],
				InitContainerStatuses: status.InitContainerStatuses[:0]},
		}
		d.unused.Put(p)
	}()
	if err := p.Unmarshal(masked); err != nil {
		return nil, err
	}
	return d.projection.fit(p), nil
}
