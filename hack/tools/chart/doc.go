// Package chart has the tests of deploy/chart, which need helm and kubectl: "make chart" builds and names them.
package chart
