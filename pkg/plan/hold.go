package plan

// Hold is what a plan leaves alone, although it is due, because that is out of the ordinary and not proved to be right.
// Several keys may hold the same: then it is held until none of them does any more.
type Hold struct {
	What string // in a few words, the same for all keys that hold the same; empty: nothing is held
	Why  string // what is out of the ordinary, for people
	// Ended says why a key that has held something does not any more. It is of a plan that holds nothing.
	Ended HoldEnd
}

// HoldEnd says why something is not held any more.
type HoldEnd int

// The reasons that a plan may give. The engine finds out by itself that the object of a key is gone, that the process
// leads no longer, and that an operator has released the brake.
const (
	ByProof     HoldEnd = iota // live reads agree, or the numbers are no longer out of the ordinary
	ByTime                     // the time is over for which it is held without proof
	NothingLeft                // nothing is left of what was held
)
