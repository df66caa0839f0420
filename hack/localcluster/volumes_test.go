package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestClaimsOfExamplesNeedVolumesThatAreAttached(t *testing.T) {
	const (
		bound    = `{"metadata":{"name":"data-db-0"},"spec":{"volumeName":"pvc-1","storageClassName":"csi"},"status":{"phase":"Bound","capacity":{"storage":"1Gi"}}}`
		pending  = `{"metadata":{"name":"data-db-1"},"spec":{"storageClassName":"csi"},"status":{"phase":"Pending"}}`
		attached = `{"spec":{"nodeName":"node-1","source":{"persistentVolumeName":"pvc-1"}},"status":{"attached":true}}`
		begun    = `{"spec":{"nodeName":"node-1","source":{"persistentVolumeName":"pvc-1"}},"status":{"attached":false}}`
		other    = `{"spec":{"nodeName":"node-2","source":{"persistentVolumeName":"pvc-2"}},"status":{"attached":true}}`
	)
	for _, c := range []struct{ claims, attachments, want, missing string }{
		{"", attached, "", "no claims"},
		{pending, "", "", "data-db-1 is Pending"},
		{bound, "", "", "attached nowhere"},
		{bound, begun + "," + other, "", "attached nowhere"},
		{bound + "," + pending, attached, "", "data-db-1 is Pending"},
		{bound, other + "," + attached,
			"PersistentVolumeClaim data-db-0: it is bound to a volume of class csi with 1Gi, which is attached to node-1", ""},
	} {
		var claims claimList
		var attachments attachmentList
		for text, list := range map[string]any{`{"items":[` + c.claims + `]}`: &claims,
			`{"items": [` + c.attachments + `]}`: &attachments} {
			if err := json.Unmarshal([]byte(text), list); err != nil {
				t.Fatal(err)
			}
		}
		lines, err := describeVolumes(claims, attachments)
		if c.missing != "" && (err == nil || !strings.Contains(err.Error(), c.missing)) || c.missing == "" && err != nil {
			t.Errorf("claims %s, attachments %s: error %v, want %q", c.claims, c.attachments, err, c.missing)
		}
		if got := strings.Join(lines, "\n"); c.missing == "" && got != c.want {
			t.Errorf("claims %s, attachments %s: %q, want %q", c.claims, c.attachments, got, c.want)
		}
	}
}
