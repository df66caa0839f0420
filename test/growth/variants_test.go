//go:build unix

package growth

import (
	"fmt"
	"reflect"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

//lint:file-ignore SA1019 Endpoints are deprecated; the controller serves those who still use them

// variants are what elements of a list may be like that are more than a few texts.
var variants = map[reflect.Type][]func(i int) any{
	of[metav1.OwnerReference](): {
		func(i int) any {
			return metav1.OwnerReference{APIVersion: nobodys, Kind: "Pod", Name: "a", UID: types.UID(fmt.Sprint("u", i))}
		},
		func(i int) any {
			return metav1.OwnerReference{APIVersion: nobodys, Kind: "Pod", Name: fmt.Sprint("a", i), UID: "u"}
		},
	},
	of[metav1.LabelSelector](): {
		func(i int) any { return metav1.LabelSelector{MatchLabels: map[string]string{fmt.Sprint("k", i): "x"}} },
	},
	of[metav1.LabelSelectorRequirement](): {
		func(i int) any {
			return metav1.LabelSelectorRequirement{Key: fmt.Sprint("k", i), Operator: metav1.LabelSelectorOpIn, Values: []string{"x"}}
		},
		func(i int) any {
			return metav1.LabelSelectorRequirement{Key: fmt.Sprint("k", i), Operator: metav1.LabelSelectorOpIn, Values: []string{"x", "y"}}
		},
		func(i int) any {
			return metav1.LabelSelectorRequirement{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{fmt.Sprint("x", i)}}
		},
	},
	of[corev1.NodeSelectorTerm](): {
		func(i int) any {
			return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: fmt.Sprint("k", i), Operator: corev1.NodeSelectorOpIn, Values: []string{"x"}}}}
		},
	},
	of[corev1.NodeSelectorRequirement](): {
		func(i int) any {
			return corev1.NodeSelectorRequirement{Key: fmt.Sprint("k", i), Operator: corev1.NodeSelectorOpNotIn, Values: []string{"x"}}
		},
	},
	of[corev1.Container](): {
		func(i int) any {
			return corev1.Container{Name: fmt.Sprint("c", i), Image: "web:1",
				Ports: []corev1.ContainerPort{{Name: fmt.Sprint("p", i), ContainerPort: int32(i%50_000 + 1)}}}
		},
	},
	of[corev1.Volume](): {
		func(i int) any {
			return corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("c", i)}}}
		},
		func(i int) any {
			return corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{
				AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: fmt.Sprint("d", i)}}}
		},
	},
	of[autoscalingv2.MetricSpec](): {
		func(i int) any {
			return autoscalingv2.MetricSpec{Type: autoscalingv2.ContainerResourceMetricSourceType,
				ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
					Name: corev1.ResourceCPU, Container: fmt.Sprint("c", i), Target: averageOfOne()}}
		},
	},
	of[discoveryv1.Endpoint](): {
		func(i int) any {
			return discoveryv1.Endpoint{Addresses: []string{address(i)}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}
		},
	},
	of[corev1.ResourceName](): {
		func(i int) any { return corev1.ResourceName(fmt.Sprintf("requests.example.com/x%d", i)) },
		func(i int) any { return corev1.ResourceName(fmt.Sprintf("count/x%d.example.com", i)) },
	},
	of[corev1.EndpointAddress](): {func(i int) any { return corev1.EndpointAddress{IP: address(i)} }},
	of[corev1.EndpointSubset](): {
		func(i int) any {
			return corev1.EndpointSubset{Addresses: []corev1.EndpointAddress{{IP: address(i)}},
				Ports: []corev1.EndpointPort{{Port: int32(i%50_000 + 1)}}}
		},
	},
	of[corev1.PodIP]():  {func(i int) any { return corev1.PodIP{IP: address(i)} }},
	of[corev1.HostIP](): {func(i int) any { return corev1.HostIP{IP: address(i)} }},
}

// nobodys is an API that is not served: owners of others are read live, one by one.
const nobodys = "example.com/v1"

func of[T any]() reflect.Type { return reflect.TypeFor[T]() }

func address(i int) string { return fmt.Sprintf("10.%d.%d.%d", 1+i>>16, i>>8&255, i&255) }

func averageOfOne() autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: ptr.To(resource.MustParse("1"))}
}
