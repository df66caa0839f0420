// Package projection says which fields of objects the caches keep, and decodes nothing else.
//
// # Why
//
// A cluster has many pods, and the controllers read few of their fields. To decode a whole pod of 6 KB takes 222 allocations and
// 29 KB, nearly all of which is garbage when the pod has been projected. To decode it in part takes 59 allocations, 4 KB
// and a quarter of the time (BenchmarkDecodePod).
//
// # How a pod is decoded
//
//  1. The API server sends pods as protobuf: one in each event of a watch, or all of them in a list.
//  2. A mask of package fieldmask, made from [Kinds], copies the bytes of the wanted fields into a buffer. This skips
//     fields by their length and does not decode them.
//  3. [PodDecoder] decodes the buffer with the decoder of the API machinery into a pod that it reuses.
//  4. [Pod] copies from it what is kept into a new pod. The mask works on fields as a whole; Pod also chooses among the elements
//     of lists, such as conditions by type.
//
// The result of a watch event is a [ProjectedPod], so that the informer knows that nothing is left to do. A pod that comes as
// JSON, from a server that does not speak protobuf, is decoded whole, and [Project] does step 4 alone.
//
// # Other kinds
//
// There are fewer objects of other kinds, and some are written back whole. They lose managedFields, and a few large fields
// where nobody writes them back: the mask removes them before decoding, and Project, as the transform function of the
// informers, after decoding in JSON.
//
// # What keeps it right
//
// For any object, decoding in part gives the same as decoding the whole and projecting it; properties and fuzz tests check this
// with random and damaged data. That no controller reads a field that is not kept is checked in the package of each controller:
// it decides the same with whole and with projected objects.
package projection
