// Package persistentvolumeexpander is the persistentvolume-expander controller: when somebody asks for more
// storage in a PersistentVolumeClaim, it says who has to make the volume larger, and hands claims of volumes
// of earlier in-tree plugins to the resizer of the CSI driver that took over. It makes no volume larger
// itself.
//
// A program passes what persistentvolumeexpander.New(persistentvolumeexpander.Options{}) returns to
// manager.New. For users, docs/persistentvolumeexpander.md says what the controller does.
//
// A key is a claim. Observe finds its volume while the claim asks for more than it has. Plan says once for
// each request, in an event, who makes the volume larger: the memory is the last such request.
package persistentvolumeexpander
