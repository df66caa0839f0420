// Package slicemetrics are the metrics that the two controllers of EndpointSlices have in common.
//
// A controller makes them with [New], registers All, and reports each reconcile.
package slicemetrics
