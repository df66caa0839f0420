// Package exam asks "controller-manager why" what is wrong, on a real control plane, and judges the answers.
//
// Each file in problems has a problem: the objects, what a user, a kubelet or a node then does, what must be true before the question is
// asked, and the faulty component. The component was fixed before there was code that could find it. Each file in healthy has a world in
// which nothing is wrong, and for which no cause may be named. The problems are made again after lists of others, in our own words.
//
//	STORAGE=1 go test ./test/exam -count=1 -v                     # the exam; "localcluster build --with-csi" has to be done before
//	STORAGE=1 go test ./test/exam -count=1 -v -only-set-up        # whether all problems can be set up
//	STORAGE=1 go test ./test/exam -count=1 -v -write docs/why.md  # and put the table into a page
//
// The first document of a file is a [Problem], and the others are objects. In all of them $NS stands for the problem's namespace, $HOOK for
// the URL of a webhook whose certificate nobody trusts, $SLOW for one that never answers, $DENY for one that denies all, and $CA for the CA
// of both.
package exam
