package plantest

import "encoding/json"

// Restored returns a snapshot that was stored as JSON and read back, as it is planned again from a report of what
// happened. It fails the test if the snapshot cannot be stored.
func Restored[S any](t interface{ Fatal(...any) }, s S) (restored S) {
	data, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(data, &restored)
	}
	if err != nil {
		t.Fatal("store a snapshot: ", err)
	}
	return restored
}
