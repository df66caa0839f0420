// Package access decides who may have what of the HTTPS server (MH-2, MH-3, CLI-35, CLI-37, CLI-38).
//
// [NewTokens] returns an authenticator that finds out whose a bearer token is, by TokenReviews. An [Authorizer]
// decides whether a user may have a path: by a list of paths that everybody may have, and by SubjectAccessReviews.
//
// Both ask the API server through a [Reviewer], which tries again what may pass, and stops after a time. Answers are
// remembered for as long as the configuration says.
package access
