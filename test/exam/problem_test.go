package exam

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/jsonpath"
)

// fewest is how many problems the exam has at least, and how many worlds in which nothing is wrong.
var fewest = map[string]int{"problems": 60, "healthy": 6}

// kinds are those that may be causes.
var kinds = strings.Fields("APIService Bucket ConfigMap CronJob DaemonSet Database Deployment DeviceClass HorizontalPodAutoscaler Ingress " +
	"IngressClass Job LimitRange MutatingAdmissionPolicy MutatingAdmissionPolicyBinding " +
	"MutatingWebhookConfiguration Namespace Node PersistentVolume PersistentVolumeClaim Pod PodDisruptionBudget " +
	"PriorityClass Relic ReplicaSet ResourceClaim ResourceClaimTemplate ResourceQuota Role RoleBinding RuntimeClass " +
	"Secret Service ServiceAccount StatefulSet StorageClass ValidatingAdmissionPolicy " +
	"ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration VolumeAttachment")

func TestProblems(t *testing.T) {
	titles := map[string]string{}
	for _, folder := range slices.Sorted(maps.Keys(fewest)) {
		all, err := Load(folder)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) < fewest[folder] {
			t.Errorf("%s has only %d files", folder, len(all))
		}
		for _, p := range all {
			p, err := p.With(map[string]string{"NS": "test", "HOOK": "https://127.0.0.1", "SLOW": "https://127.0.0.1",
				"DENY": "https://127.0.0.1", "CA": "Y2E="})
			if err != nil {
				t.Fatal(err)
			}
			if other := titles[p.Title]; other != "" {
				t.Errorf("%s has the title of %s", p.Name, other)
			}
			titles[p.Title] = p.Name
			if (len(p.Cause) > 0) != (folder == "problems") {
				t.Errorf("%s has %d causes", p.Name, len(p.Cause))
			}
			for _, wrong := range wrong(p) {
				t.Errorf("%s: %s", p.Name, wrong)
			}
		}
	}
}

// wrong tells what a problem lacks.
func wrong(p *Problem) (found []string) {
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	if p.Title == "" || len(p.Until) == 0 || len(p.Objects) == 0 || p.Commands < 1 {
		say("it lacks a title, objects, commands, or what must be true before it is asked")
	}
	if rank(p.Like) > 2 {
		say("whose problem is it? %q", p.Like)
	}
	if _, _, err := split(p.Ask); err != nil {
		say("ask: %v", err)
	}
	if len(p.Cause) > 0 && len(p.Mention) == 0 {
		say("nothing has to be mentioned")
	}
	for _, c := range p.Cause {
		if !slices.Contains(kinds, c.Kind) || strings.TrimSuffix(c.Name, "*") == "" {
			say("an unknown cause: %+v", c)
		}
	}
	for _, o := range p.objects() {
		if err := known(o); err != nil {
			say("%v", err)
		}
	}
	for _, c := range p.conditions() {
		if err := c.check(); err != nil {
			say("%v", err)
		}
	}
	return found
}

// objects are all that a problem creates, or tries to.
func (p *Problem) objects() []map[string]any {
	all := slices.Clone(p.Objects)
	for _, s := range p.Steps {
		if s.Create != nil {
			all = append(all, s.Create)
		}
	}
	for _, c := range p.conditions() {
		if c.Try != nil {
			all = append(all, c.Try)
		}
	}
	return all
}

func (p *Problem) conditions() []Condition {
	all := slices.Clone(p.Until)
	for _, s := range p.Steps {
		if s.Await != nil {
			all = append(all, *s.Await)
		}
	}
	return all
}

// known refuses an object with a field that its kind does not have. Kinds that client-go does not know are left to the API server.
func known(object map[string]any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("write the object: %w", err)
	}
	strict := kjson.NewSerializerWithOptions(kjson.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, kjson.SerializerOptions{Strict: true})
	if _, _, err := strict.Decode(text, nil, nil); err != nil && !runtime.IsNotRegisteredError(err) {
		return fmt.Errorf("%v %v: %w", object["kind"], object["metadata"], err)
	}
	return nil
}

// check refuses a condition of which nothing, or more than one thing, must be true.
func (c Condition) check() error {
	ways := 0
	for _, is := range []bool{c.Try != nil, c.Event != "", c.Gone, c.Path != "" && c.Try == nil} {
		if is {
			ways++
		}
	}
	if ways != 1 || (c.Try != nil) == (c.Object+c.About != "") {
		return fmt.Errorf("the condition is not one thing: %+v", c)
	}
	return jsonpath.New("condition").Parse(c.Path)
}

func TestUnknownFieldsAreRefused(t *testing.T) {
	for _, text := range []string{"title: a\nnosuch: b\n", "title: a\nsteps: [{nosuch: {}}]\n", "title: a\ntitle: b\n"} {
		if p, err := parse("x", text); err == nil {
			t.Errorf("%q is %+v", text, p)
		}
	}
}
