// Package csrtest makes requests for certificates, and authorities that sign them, for tests.
//
// [Kubelet] is a request as kubelets make it, and the functions that it takes change it.
package csrtest
