// Package rootca finds the certificate authorities by which pods verify the API server.
//
// A controller opens a file, or the configuration of the client, with [Open], reads the bundle with Get and follows its changes with Follow.
// [Describe] tells people where the bundle is from.
package rootca
