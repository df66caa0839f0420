package reconcile

import (
	"reflect"
	"testing"

	"github.com/standalone-kcm/controller-manager/pkg/client"
)

// Observe gets a Reader that cannot write: its dynamic type has no method of [client.Client] that a Reader lacks. All controllers get
// theirs from the runner.
func TestObserveCannotWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.start()
		w.put("set", 1)
		w.settle()
		asked := w.requests()
		if len(asked) == 0 {
			t.Fatal("Observe was not called")
		}
		all, reading := reflect.TypeFor[client.Client](), reflect.TypeFor[client.Reader]()
		writing := 0
		for method := range all.Methods() {
			if _, ok := reading.MethodByName(method.Name); ok {
				continue
			}
			writing++
			if _, ok := reflect.TypeOf(asked[0].Reader).MethodByName(method.Name); ok {
				t.Errorf("Observe can %s", method.Name)
			}
		}
		if writing < 5 {
			t.Errorf("only %d methods write", writing)
		}
	})
}
