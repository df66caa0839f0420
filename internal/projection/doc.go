// Package projection keeps of the objects in caches the fields that enabled controllers read, and decodes nothing else.
//
// # Why
//
// A cluster has many pods, and the controllers read few of their fields. To decode a whole pod of 6 KB takes 222
// allocations and 29 KB, nearly all of which is garbage when the pod has been projected. To decode it in part takes
// 59 allocations, 4 KB and a third of the time (BenchmarkDecodePod).
//
// # What is kept
//
// Each controller declares the fields that it reads of each kind ([Fields]). A [Projection] is their union. So a
// process without the endpoint controller does not keep the ports of pods. Of a kind that is written back whole, or
// that a controller caches without saying what it reads of it, everything is kept but managedFields.
//
// # How a pod is decoded
//
//  1. The API server sends pods as protobuf: one in each event of a watch, or all of them in a list.
//  2. A [Mask], made from the declared paths, copies the bytes of the wanted fields into a buffer. This skips fields by
//     their length and does not decode them.
//  3. [PodDecoder] decodes the buffer with the decoder of the API machinery into a pod that it reuses.
//  4. What is kept is copied from it into a new pod. The mask works on fields as a whole; this step also chooses
//     among the elements of lists: conditions that somebody reads, containers of which more than the name is kept.
//
// The result of a watch event is a [ProjectedPod], so that the informer knows that nothing is left to do. A pod that
// comes as JSON, from a server that does not speak protobuf, is decoded whole, encoded, and then takes the same way
// ([Projection.ProjectPod]).
//
// # Masks
//
// A mask names the fields of a kind to keep, or those to drop ([Only], [Without]). Two rules follow from how it works:
//
//   - Data that the mask does not understand (a broken length, a group, a tag out of range, an entry of a map that is
//     not a key and a value) is decoded whole. It is accepted or refused as it would be without a mask.
//   - Of an unwanted field only the length is looked at. An object that is damaged nowhere else is accepted, where
//     a full decoder would refuse it.
//
// # Other kinds
//
// Their masks remove fields before decoding. From a server that speaks only JSON, they keep all fields but
// managedFields and the annotation of kubectl apply.
//
// # What keeps it right
//
// For any object, decoding in part gives the same as decoding the whole and projecting it; properties and fuzz tests
// check this with random and damaged data. That no controller reads a field that it has not declared is checked in
// the package of each controller: it decides the same with whole objects and with objects of which exactly its own
// fields are kept.
package projection
