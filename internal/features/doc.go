// Package features knows the feature gates of Kubernetes, and what they were in each version.
//
//	on, known := features.Default("PodDeletionCost")
//
// is the state of a gate that nobody has switched. [All] is for a command line, which lets users switch gates and emulate versions.
package features
