// Package fixedseed makes property tests repeatable: a test package that imports it for its effect draws the same cases in
// every run, so that a tree that passed once passes again. go test -rapid.seed=N -count=1 ./pkg explores others. It imports
// pgregory.net/rapid, whose flags must be there before it is initialized, and is for tests.
package fixedseed

import (
	"flag"

	_ "pgregory.net/rapid" // registers the flag
)

func init() {
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
}
