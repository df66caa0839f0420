// Package client reads and writes objects of any kind.
//
//   - A [Mapping] says how objects of one kind are addressed. [BuiltIn] knows it for the kinds of client-go's scheme,
//     without a request; a [Mapper] learns it for all others from discovery, which it shares among all who ask.
//   - [Clients] are the clients of one identity (one rest.Config): they share one HTTP client and one rate limiter.
//     Each is made when it is first asked for.
//   - A [Reader] gets and lists; it cannot write. A [Client] also writes. Every request of theirs ends within
//     [RequestTimeout], and writes are answered with metadata only.
//   - [Change] turns an object as it was observed into the object as it should be, by update, patch or apply.
//     [MethodFor] derives from declared rights which of them a controller may use. No difference, no request.
//     [Mapping.Difference] and [Mapping.Applied] make the bodies of patches.
//
// Built-in kinds travel as the configuration says (protobuf by default) and are changed by strategic merge patches, or
// by JSON merge patches where these would cost the API server too much, see [Mapping.Difference].
// Custom resources, and the kinds of aggregated API servers, travel as JSON and are changed by JSON merge patches.
//
// Errors of requests are those of k8s.io/apimachinery/pkg/api/errors, unwrapped. No method changes an object that it is
// given, other than to read into it.
package client
