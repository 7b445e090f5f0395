// Package fixedseed makes property tests repeatable: a test package that imports it for its side effect draws the same
// cases in every run, so that the same source always passes or always fails. go test -rapid.seed=N -count=1 ./pkg
// explores others. It imports pgregory.net/rapid, whose flags must be there before it is initialized, and is for tests.
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
