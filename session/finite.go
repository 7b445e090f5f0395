package session

import (
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/model"
)

// CheckFinite returns an error if a value in the session cannot result from reading a text: if a state or logits are
// NaN or infinite, or a log-probability is above 0. A valid checksum does not exclude that, since anyone can compute
// it.
func (s *Session) CheckFinite() error {
	for i, p := range s.logProbs {
		if p > 0 { // NaN, never computed, and -Inf, an excluded token, are valid
			return fmt.Errorf("found the log-probability %v of the token at %d, want at most 0", p, i)
		}
	}
	for _, n := range slices.Concat([]*Snapshot{s.at}, s.marks) {
		if n == nil {
			continue
		}
		if err := n.checkFinite(); err != nil {
			return err
		}
	}
	return nil
}

// checkFinite checks the state and the logits.
func (n *Snapshot) checkFinite() (err error) {
	n.State.Parts(func(p model.StatePart) {
		if p.Integers != nil && p.Integers.Finite() { // avoids a copy, which would be four times as large
			return
		}
		_, values := p.Values()
		i := slices.IndexFunc(values, func(x float32) bool { return x-x != 0 })
		if err == nil && i >= 0 {
			err = fmt.Errorf("found %v at %d of %s in the state after %d tokens, want finite numbers", values[i], i,
				p.Name, n.Position)
		}
	})
	if err == nil && n.Logits != nil {
		if _, err = sample.LogProbsOf(n.Logits); err != nil {
			err = fmt.Errorf("after %d tokens: %w", n.Position, err)
		}
	}
	return err
}
