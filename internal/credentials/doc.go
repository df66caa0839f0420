// Package credentials finds the certificate authorities by which pods verify the API server.
//
// A controller opens a file, or the configuration of the client, with [OpenRootCA], reads the bundle with Get and
// follows its changes with Follow. [DescribeRootCA] says where the bundle is from. What several controllers ask
// of requests for certificates, and of bootstrap tokens, is below: these packages are pure.
package credentials
