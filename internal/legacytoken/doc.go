// Package legacytoken signs the tokens of service accounts that are kept in Secrets. They do not expire. The API server accepts such a
// token as long as the Secret holds it.
//
// [ParseKey] reads a private key, whose method Token signs.
package legacytoken
