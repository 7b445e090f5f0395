// Package fixedseed makes property tests repeatable. A test package that imports it for its side effect draws the same
// cases in every run, so that the same source always passes or always fails. go test -rapid.seed=N -count=1 ./pkg
// explores others. The package imports pgregory.net/rapid, whose flags must be registered before its init function
// runs. It is for tests only.
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
