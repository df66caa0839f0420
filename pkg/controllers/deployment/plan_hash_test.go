package deployment

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/standalone-kcm/controller-manager/internal/testing/plantest"
)

func TestNewName(t *testing.T) {
	for _, c := range []struct{ name, deployment, want string }{
		{"DEP-19 the hash follows the Deployment's name", "web", "web-"},
		{"DEP-19 a long name is cut", strings.Repeat("a", 253), strings.Repeat("a", 242) + "-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := plantest.Deployment(c.deployment, 1)
			d.Spec.Template = plantest.Template("web", "nginx:1.27")
			name, hash := newName(d)
			if !strings.HasPrefix(name, c.want) || !strings.HasSuffix(name, "-74f8f75d46") || hash != "74f8f75d46" || len(name) > 253 {
				t.Errorf("got %s", name)
			}
			if bad := validation.IsDNS1123Subdomain(name); bad != nil {
				t.Error(bad)
			}
		})
	}
}

func TestSameTemplate(t *testing.T) {
	base := plantest.Template("web", "v1")
	base.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
	for _, c := range []struct {
		name string
		edit func(*corev1.PodTemplateSpec)
		want bool
	}{
		{"DEP-10 equal", func(*corev1.PodTemplateSpec) {}, true},
		{"DEP-10 the hash label does not count", func(p *corev1.PodTemplateSpec) { p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "x" },
			true},
		{"DEP-10 nil equals empty", func(p *corev1.PodTemplateSpec) {
			p.Annotations = map[string]string{}
			p.Spec.Volumes = []corev1.Volume{}
		}, true},
		{"DEP-10 quantities by value", func(p *corev1.PodTemplateSpec) {
			p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("1000m")
		}, true},
		{"DEP-10 another image", func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Image = "v2" }, false},
		{"DEP-10 another label", func(p *corev1.PodTemplateSpec) { p.Labels["tier"] = "front" }, false},
		{"DEP-10 a label less", func(p *corev1.PodTemplateSpec) { delete(p.Labels, "app") }, false},
		{"DEP-10 another annotation", func(p *corev1.PodTemplateSpec) { p.Annotations = map[string]string{"restarted": "now"} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			other := base.DeepCopy()
			c.edit(other)
			if got := sameTemplate(&base, other); got != c.want {
				t.Errorf("got %t", got)
			}
			if got := sameTemplate(other, &base); got != c.want {
				t.Errorf("the other way round: got %t", got)
			}
		})
	}
}
