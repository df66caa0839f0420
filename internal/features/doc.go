// Package features knows the feature gates of Kubernetes, and what they were in each version.
//
//	on, known := features.Default("PodDeletionCost")
//
// returns whether a gate is on that nobody has switched, and whether it is known. [All] is for a command line: users
// switch gates there, emulate versions, and still give gates that are gone.
package features
