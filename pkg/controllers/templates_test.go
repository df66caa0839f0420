package controllers

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/standalone-kcm/controller-manager/pkg/manager/managertest"
)

// TestDEP24aTemplatesAreKeptWhole: caches keep each field of the templates from which controllers make pods, also those that a newer
// library has brought: what is cut here is missing in pods and in revisions, and its change starts no rollout (DEP-24a).
func TestDEP24aTemplatesAreKeptWhole(t *testing.T) {
	kept, err := managertest.Projection(Registry()...)
	if err != nil {
		t.Fatal(err)
	}
	var template corev1.PodTemplateSpec
	fields := fill(reflect.ValueOf(&template).Elem())
	if fields < 700 {
		t.Errorf("only %d fields of templates", fields)
	}
	job := batchv1.JobSpec{Template: template}
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "web"}
	for _, whole := range []runtime.Object{
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: template}},
		&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Template: template}},
		&corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Template: &template}},
		&appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Template: template}},
		&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Template: template}},
		&batchv1.Job{ObjectMeta: meta, Spec: job},
		&batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: job}}},
	} {
		if got, err := kept.Project(whole); err != nil || !equality.Semantic.DeepEqual(whole, got) {
			t.Errorf("%T: %v (- whole, + kept):\n%s", whole, err, cmp.Diff(whole, got))
		}
	}
}

// fill sets each field of a type of the API, with one element in each list and map, and counts the fields.
func fill(v reflect.Value) (fields int) {
	switch v.Interface().(type) {
	case resource.Quantity:
		v.Set(reflect.ValueOf(resource.MustParse("1")))
		return 0
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.NewTime(time.Unix(1, 0))))
		return 0
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fields += 1 + fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fields = fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fields = fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fields = fill(key) + fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint(1)
	default:
		panic("no value for " + v.Type().String())
	}
	return fields
}
