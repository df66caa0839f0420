// Package managertest runs controllers in tests.
//
// [Start] runs them on any API server, such as one of envtest, until the test ends. The rest is for tests of one
// controller: [InVirtualTime] makes an API server in memory, [Context] what the controller is built from, and [Run]
// runs it while a test works.
package managertest
