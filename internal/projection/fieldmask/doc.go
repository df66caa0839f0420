// Package fieldmask decodes parts of API objects. A mask names the fields of a kind to keep, or those to drop. Dropped fields
// are removed from the protobuf before it is decoded, so they are never allocated. Which fields the caches keep is said in
// package projection.
//
// The fields to keep are copied into a buffer that is reused, and decoded by the decoders of the API machinery. Two rules
// follow:
//
//   - Data that the mask does not understand (a broken length, a group, a tag out of range, an entry of a map that is not a key
//     and a value) is decoded whole. It is accepted or refused as it would be without a mask.
//   - Of an unwanted field only the length is looked at. An object that is damaged nowhere else is accepted, where a full
//     decoder would refuse it.
package fieldmask
