package release

import (
	"fmt"

	"github.com/hippo-ssm/hippo/model"
)

// maxExperts is the maximum number of experts. It limits the cost of a hostile configuration.
const maxExperts = 1024

// someExperts returns an error unless the number of experts and the number that a position uses are valid.
func someExperts(fields string, n, used int) error {
	if n < 1 || n > maxExperts || used < 1 || used > n {
		return fmt.Errorf("%s: found %d and %d, want 1 to %d, and at most that many used", fields, n, used,
			maxExperts)
	}
	return nil
}

// expertNames returns the names of experts with separate tensors. gate is "" if they have no gate matrix.
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

// stackedNames returns the names of experts with stacked matrices. In the tensor named input, the matrices of gate and
// up alternate.
func stackedNames(own, input, output string, n int) (names []rename) {
	for e := range n {
		mine := fmt.Sprintf("%sexperts.%d.", own, e)
		names = append(names,
			rename{mine + "gate.weight", []model.Source{{Name: input, Part: 2 * e, Of: 2 * n, Stack: n}}},
			rename{mine + "fc1.weight", []model.Source{{Name: input, Part: 2*e + 1, Of: 2 * n, Stack: n}}},
			rename{mine + "fc2.weight", []model.Source{{Name: output, Part: e, Of: n, Stack: n}}})
	}
	return names
}
