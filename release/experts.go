package release

import (
	"fmt"

	"github.com/hippo-ssm/hippo/model"
)

// maxExperts bounds what a hostile configuration can cost.
const maxExperts = 1024

// someExperts returns an error unless a number of experts, and how many of them a position uses, can be.
func someExperts(fields string, n, used int) error {
	if n < 1 || n > maxExperts || used < 1 || used > n {
		return fmt.Errorf("%s: found %d and %d, want 1 to %d, and at most that many used", fields, n, used,
			maxExperts)
	}
	return nil
}

// expertNames are those of experts with tensors of their own. A name may be "" for a matrix that they do not have.
func expertNames(own, prefix string, n int, gate, up, down string) (names []rename) {
	for e := range n {
		mine, theirs := fmt.Sprintf("%sexperts.%d.", own, e), fmt.Sprintf("%sexperts.%d.", prefix, e)
		names = append(names, to(mine+"fc1.", theirs+up+"."), to(mine+"fc2.", theirs+down+"."))
		if gate != "" {
			names = append(names, to(mine+"gate.", theirs+gate+"."))
		}
	}
	return names
}

// stackedNames are those of experts whose matrices are stacked: in input those of gate and up, in turn.
func stackedNames(own, input, output string, n int) (names []rename) {
	for e := range n {
		mine := fmt.Sprintf("%sexperts.%d.", own, e)
		names = append(names,
			rename{mine + "gate.", []model.Source{{Name: input, Part: 2 * e, Of: 2 * n, Stack: n}}},
			rename{mine + "fc1.", []model.Source{{Name: input, Part: 2*e + 1, Of: 2 * n, Stack: n}}},
			rename{mine + "fc2.", []model.Source{{Name: output, Part: e, Of: n, Stack: n}}})
	}
	return names
}
