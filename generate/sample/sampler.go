package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// A Sampler chooses tokens. It reuses its memory: once it has seen the vocabulary's size, Next allocates nothing.
// It must not be used by several goroutines at once.
type Sampler struct {
	opt Options
	pcg *rand.PCG
	rng *rand.Rand // over pcg, which holds all of its state

	left   []candidate // the tokens still in the choice, by number
	sorted []candidate // the same, as far sorted as a cut needs
	seen   []uint64    // per token, the call of Next that penalized it last
	call   uint64
}

// New returns a sampler, or the error of opt.Validate.
func New(opt Options) (*Sampler, error) {
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	const stream = 0x68697070 // any constant: the second half of PCG's seed
	pcg := rand.NewPCG(opt.Seed, stream)
	return &Sampler{opt: opt, pcg: pcg, rng: rand.New(pcg)}, nil
}

// Next chooses a token given its logits (v) and the tokens before it, of which only the repetition penalty makes use.
// It does not change logits. A logit of -Inf excludes its token. Every call takes one random number, a greedy one none.
//
// An error names what makes a choice impossible: logits that are NaN or +Inf, the mark of a broken model; none above
// -Inf; a token in the history outside of the vocabulary.
func (s *Sampler) Next(logits []float32, history []int32) (int32, error) {
	if err := s.collect(logits); err != nil {
		return 0, err
	}
	if err := s.penalize(history, len(logits)); err != nil {
		return 0, err
	}
	s.left = dropExcluded(s.left)
	if len(s.left) == 0 {
		return 0, errors.New("logits: found none above -Inf, wanted a token to choose")
	}
	best := s.left[0]
	for _, c := range s.left[1:] {
		if larger(c, best) {
			best = c
		}
	}
	if s.opt.Temperature == 0 {
		return best.token, nil
	}

	if k := s.opt.TopK; k > 0 && k < len(s.left) {
		s.sorted = append(s.sorted[:0], s.left...)
		selectLargest(s.sorted, k)
		s.cut(smallest(s.sorted[:k]))
	}
	sum := s.weigh(best.logit)
	if p := s.opt.TopP; p > 0 && p < 1 {
		s.cut(s.nucleus(p * sum))
	}
	return s.draw(s.opt.MinP), nil
}

// A candidate is a token in the choice.
type candidate struct {
	token  int32
	logit  float32
	weight float64 // probability relative to the largest, exp((logit - max) / temperature)
}

// larger is the order of all cuts: by logit, of equals the lower token first.
func larger(a, b candidate) bool {
	return a.logit > b.logit || a.logit == b.logit && a.token < b.token
}

// collect makes all tokens candidates.
func (s *Sampler) collect(logits []float32) error {
	s.left = s.left[:0]
	for i, x := range logits {
		if x != x || x > math.MaxFloat32 {
			return fmt.Errorf("logits: found %v for token %d, wanted a finite number or -Inf", x, i)
		}
		s.left = append(s.left, candidate{token: int32(i), logit: x})
	}
	return nil
}

// penalize applies the repetition penalty, once to each token in the window. left must be all of the vocabulary.
func (s *Sampler) penalize(history []int32, vocab int) error {
	penalty := float32(s.opt.RepetitionPenalty)
	if penalty == 0 || penalty == 1 {
		return nil
	}
	if w := s.opt.RepetitionWindow; w > 0 && w < len(history) {
		history = history[len(history)-w:]
	}
	if len(s.seen) < vocab {
		s.seen = make([]uint64, vocab)
	}
	s.call++
	for _, token := range history {
		if token < 0 || int(token) >= vocab {
			return fmt.Errorf("history: found token %d, wanted one from 0 to %d", token, vocab-1)
		}
		if s.seen[token] == s.call {
			continue
		}
		s.seen[token] = s.call
		c := &s.left[token]
		if c.logit > 0 {
			c.logit = min(c.logit/penalty, math.MaxFloat32) // a penalty below 1 must not make it infinite
		} else {
			c.logit *= penalty
		}
	}
	return nil
}

// dropExcluded removes candidates at -Inf.
func dropExcluded(c []candidate) []candidate {
	kept := c[:0]
	for _, x := range c {
		if x.logit >= -math.MaxFloat32 {
			kept = append(kept, x)
		}
	}
	return kept
}

// cut leaves in the choice what is not smaller than last.
func (s *Sampler) cut(last candidate) {
	kept := s.left[:0]
	for _, c := range s.left {
		if !larger(last, c) {
			kept = append(kept, c)
		}
	}
	s.left = kept
}

// weigh sets the weights and returns their sum; weight/sum is the softmax. top is the largest logit, so that the
// largest weight is 1 and none overflows.
func (s *Sampler) weigh(top float32) (sum float64) {
	for i := range s.left {
		c := &s.left[i]
		c.weight = math.Exp((float64(c.logit) - float64(top)) / s.opt.Temperature)
		sum += c.weight
	}
	return sum
}

// nucleus returns the candidate with which the sum of weights, from the largest on, reaches target.
//
// Most of a vocabulary is far below any p, so instead of sorting all of it, sort the 64 largest, and if they do not
// reach the target four times as many of the rest, and so on.
func (s *Sampler) nucleus(target float64) candidate {
	s.sorted = append(s.sorted[:0], s.left...)
	rest := s.sorted
	reached := 0.0
	for n := 64; ; n *= 4 {
		block := rest[:min(n, len(rest))]
		selectLargest(rest, len(block))
		sortLargestFirst(block)
		for _, c := range block {
			if reached += c.weight; reached >= target {
				return c
			}
		}
		if rest = rest[len(block):]; len(rest) == 0 {
			return block[len(block)-1] // rounding kept the sum a trifle below the target
		}
	}
}

// draw returns one candidate, of those that weigh at least least, with a probability proportional to its weight.
func (s *Sampler) draw(least float64) int32 {
	sum := 0.0
	for _, c := range s.left {
		if c.weight >= least {
			sum += c.weight
		}
	}
	u := s.rng.Float64() * sum
	var last int32
	for _, c := range s.left {
		if c.weight < least || c.weight == 0 {
			continue
		}
		last = c.token
		if u -= c.weight; u < 0 {
			break
		}
	}
	return last // also where rounding left a trifle of u
}

// State returns the state of the random numbers, for Restore.
func (s *Sampler) State() []byte {
	state, _ := s.pcg.MarshalBinary() // its error is always nil
	return state
}

// Restore continues with the random numbers from where State was taken.
func (s *Sampler) Restore(state []byte) error {
	if err := s.pcg.UnmarshalBinary(state); err != nil {
		return fmt.Errorf("state of random numbers: found %d bytes, wanted those that State returned: %w", len(state), err)
	}
	return nil
}
