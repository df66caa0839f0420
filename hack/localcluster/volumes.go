package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// exampleClaims are the claims of the StatefulSet in examples/statefulset.yaml, by their label.
const exampleClaims = "/api/v1/namespaces/default/persistentvolumeclaims?labelSelector=app%3Ddb"

// claimList is as much of claims as it takes to see which volumes they have.
type claimList struct {
	Items []struct {
		Metadata struct{ Name string }
		Spec     struct{ VolumeName, StorageClassName string }
		Status   struct {
			Phase    string
			Capacity struct{ Storage string }
		}
	}
}

// attachmentList is as much of VolumeAttachments as it takes to see where volumes are.
type attachmentList struct {
	Items []struct {
		Spec struct {
			NodeName string
			Source   struct{ PersistentVolumeName string }
		}
		Status struct{ Attached bool }
	}
}

// awaitVolumes waits until each claim of the examples has a volume that is attached, and says which.
func (a *api) awaitVolumes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rolloutTime)
	defer cancel()
	start := time.Now()
	var lines []string
	err := poll(ctx, "the volumes of the StatefulSet db", func() error {
		var claims claimList
		var attachments attachmentList
		for path, list := range map[string]any{exampleClaims: &claims, "/apis/storage.k8s.io/v1/volumeattachments": &attachments} {
			data, err := a.do(ctx, "GET", path, nil)
			if err != nil {
				return err
			}
			if err := json.Unmarshal(data, list); err != nil {
				return err
			}
		}
		var err error
		lines, err = describeVolumes(claims, attachments)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Printf("%s (waited %s)\n", strings.Join(lines, "\n"), time.Since(start).Round(100*time.Millisecond))
	return nil
}

// describeVolumes says of each claim which volume it has and where that is. The error says what is missing.
func describeVolumes(claims claimList, attachments attachmentList) (lines []string, err error) {
	if len(claims.Items) == 0 {
		return nil, errors.New("there are no claims")
	}
	var missing []error
	for _, c := range claims.Items {
		var nodes []string
		for _, a := range attachments.Items {
			if a.Status.Attached && a.Spec.Source.PersistentVolumeName == c.Spec.VolumeName {
				nodes = append(nodes, a.Spec.NodeName)
			}
		}
		slices.Sort(nodes)
		switch {
		case c.Status.Phase != "Bound":
			missing = append(missing, fmt.Errorf("PersistentVolumeClaim %s is %s", c.Metadata.Name, c.Status.Phase))
		case len(nodes) == 0:
			missing = append(missing,
				fmt.Errorf("PersistentVolumeClaim %s is bound to %s, which is attached nowhere", c.Metadata.Name, c.Spec.VolumeName))
		}
		lines = append(lines, fmt.Sprintf("PersistentVolumeClaim %s: it is bound to a volume of class %s with %s, which is attached to %s",
			c.Metadata.Name, c.Spec.StorageClassName, c.Status.Capacity.Storage, strings.Join(nodes, ", ")))
	}
	return lines, errors.Join(missing...)
}
