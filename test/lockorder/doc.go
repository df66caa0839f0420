// Package lockorder finds locks that are taken in different orders, before they meet in a deadlock. Its locks take the place of those
// of package sync: in the simulation, the overlay of test/overlay puts one of them where a package of the product declares one. No
// product code changes.
//
// Locks are told apart by where they are declared, not one by one: the lock of one cache before that of another's in one run and the
// other way round in another one is what is to be found. When a lock is taken while others are held, the order is noted. If there is
// another way back, over any number of locks, that is a problem, though nothing hangs. So is a lock that is taken again, or another one
// that is declared in the same place. A lock that is held while a request is made is a problem, too: see [MayWait].
//
// github.com/sasha-s/go-deadlock compares pairs of objects, and so cannot find a ring of three locks, of which the worst deadlock of
// this program was made.
package lockorder
