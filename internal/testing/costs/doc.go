// Package costs measures what a piece of code costs, for tests that judge it.
//
// A tenant decides the shape of objects, and must not decide what others pay: [CPU] and [Heap] are how tests show
// it. CPU time does not depend on what else the machine does, but on how fast the machine is: see [Slowness].
package costs
