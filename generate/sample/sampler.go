package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hippo-ssm/hippo/internal/kernel"
)

// A Sampler chooses tokens. It reuses its memory: after the first call for a vocabulary, Next allocates nothing. It is
// not safe for concurrent use.
type Sampler struct {
	opt Options
	pcg *rand.PCG
	rng *rand.Rand // uses pcg, which holds all of its state

	left      []candidate   // tokens still in the choice, by number
	sorted    []candidate   // the same, sorted as far as nucleus needs it
	penalized []float32     // logits after bias and penalties
	drawn     map[int32]int // how often each token was drawn; nil if no penalty needs it
	seen      []uint64      // per token, the last call of Next that penalized it
	call      uint64
	totals    totals // sums of the weights
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

// Next chooses a token given its logits (v) and the previous tokens, which the repetition penalty and DRY use. It does
// not change logits. A logit of -Inf excludes its token. Every call uses one random number, a greedy one none.
//
// Errors: logits that are NaN or +Inf, which indicate a broken model; no logit above -Inf; a token in the history
// outside the vocabulary.
func (s *Sampler) Next(logits []float32, history []int32) (int32, error) {
	id, err := s.choose(logits, history)
	if err == nil {
		s.Count(id)
	}
	return id, err
}

// choose chooses a token as Next does, without counting it as drawn.
func (s *Sampler) choose(logits []float32, history []int32) (int32, error) {
	if s.changes() {
		if _, err := largestLogit(logits); err != nil {
			return 0, err
		}
		var err error
		if logits, err = s.changed(logits, history); err != nil {
			return 0, err
		}
	}
	r := math.NaN()
	if s.opt.Temperature > 0 && s.opt.TopK == 0 && s.totals.add(logits, s.opt.Temperature) {
		r = s.rng.Float64()
		if token, ok := s.certain(logits, r); ok {
			return token, nil
		}
	}
	return s.exact(logits, r)
}

// exact chooses by the weights of all tokens, with the random number r, or with the next random number if r is NaN.
func (s *Sampler) exact(logits []float32, r float64) (int32, error) {
	best, err := largestLogit(logits)
	if err != nil {
		return 0, err
	}
	if best < 0 {
		return 0, errNoToken
	}
	if s.opt.Temperature == 0 {
		return int32(best), nil
	}

	switch k := s.opt.TopK; {
	case k > 0 && k <= fewTop:
		s.collectTop(logits, k)
	default:
		s.collectFrom(logits, -math.MaxFloat32)
		if k > 0 && k < len(s.left) {
			s.sorted = append(s.sorted[:0], s.left...)
			selectLargest(s.sorted, k)
			s.cut(smallest(s.sorted[:k]))
		}
	}
	sum := s.weigh(logits[best])
	if p := s.opt.TopP; p > 0 && p < 1 {
		last, _ := s.nucleus(p*sum, p*sum)
		s.cut(last)
	}
	if r != r {
		r = s.rng.Float64()
	}
	return s.draw(s.opt.MinP, r), nil
}

// ErrLogits reports that no token can be chosen from the logits, as they come from a broken model or a forged state.
var ErrLogits = errors.New("logits")

// errNoToken reports that the logits exclude every token.
var errNoToken = fmt.Errorf("%w: found none above -Inf, want a token to choose", ErrLogits)

// A candidate is a token in the choice.
type candidate struct {
	token  int32
	logit  float32
	weight float64 // probability relative to the largest, exp((logit - max) / temperature)
}

// larger reports whether a comes before b in the order of all cuts: by logit, then the lower token first.
func larger(a, b candidate) bool {
	return a.logit > b.logit || a.logit == b.logit && a.token < b.token
}

// Best returns the token with the largest logit, which a Sampler chooses at temperature 0.
func Best(logits []float32) (int32, error) {
	best, err := largestLogit(logits)
	if err == nil && best < 0 {
		err = errNoToken
	}
	return int32(best), err
}

// largestLogit returns the token with the largest logit, or -1 if none is above -Inf.
func largestLogit(logits []float32) (int, error) {
	top := float32(math.Inf(-1))
	from := 0 // start of the first block that contains it
	for at := 0; at < len(logits); at += blockLen {
		hi, bad := kernel.Largest(logits[at:min(len(logits), at+blockLen)])
		if bad {
			i := at + slices.IndexFunc(logits[at:], func(x float32) bool { return x != x })
			return 0, badLogit(i, logits[i])
		}
		if hi > top {
			top, from = hi, at
		}
	}
	if top == float32(math.Inf(-1)) {
		return -1, nil
	}
	best := from + slices.Index(logits[from:], top)
	if top > math.MaxFloat32 {
		return 0, badLogit(best, top)
	}
	return best, nil
}

func badLogit(token int, x float32) error {
	return fmt.Errorf("%w: found %v for token %d, want a finite number or -Inf", ErrLogits, x, token)
}

// repeats reports whether the repetition penalty has an effect.
func (s *Sampler) repeats() bool { return s.opt.RepetitionPenalty != 0 && s.opt.RepetitionPenalty != 1 }

// counts reports whether the choice depends on the tokens drawn before.
func (s *Sampler) counts() bool { return s.opt.FrequencyPenalty != 0 || s.opt.PresencePenalty != 0 }

// changes reports whether any option changes the model's logits.
func (s *Sampler) changes() bool {
	return s.repeats() || s.counts() || len(s.opt.LogitBias) > 0 || s.opt.DRY.Multiplier != 0
}

// changed returns a copy of the logits after bias and penalties. Excluded tokens stay excluded.
func (s *Sampler) changed(logits []float32, history []int32) ([]float32, error) {
	s.penalized = append(s.penalized[:0], logits...)
	add := func(token int32, x float64) error {
		if token < 0 || int(token) >= len(logits) {
			return fmt.Errorf("bias or penalty: found token %d, want one from 0 to %d", token, len(logits)-1)
		}
		if p := &s.penalized[token]; *p >= -math.MaxFloat32 {
			*p = float32(max(-math.MaxFloat32, min(math.MaxFloat32, float64(*p)+x)))
		}
		return nil
	}
	for token, bias := range s.opt.LogitBias {
		if err := add(token, float64(bias)); err != nil {
			return nil, err
		}
	}
	for token, n := range s.drawn {
		if err := add(token, -s.opt.PresencePenalty-float64(n)*s.opt.FrequencyPenalty); err != nil {
			return nil, err
		}
	}
	if s.repeats() {
		if err := s.penalize(s.penalized, history); err != nil {
			return nil, err
		}
	}
	if s.opt.DRY.Multiplier == 0 {
		return s.penalized, nil
	}
	return s.penalized, s.opt.DRY.penalties(history, func(token int32, by float64) error { return add(token, -by) })
}

// Count tells a new sampler which tokens were drawn before, for the frequency and presence penalties.
func (s *Sampler) Count(drawn ...int32) {
	if !s.counts() {
		return
	}
	if s.drawn == nil {
		s.drawn = map[int32]int{}
	}
	for _, token := range drawn {
		s.drawn[token]++
	}
}

// penalize applies the repetition penalty once to each token in the window.
func (s *Sampler) penalize(logits []float32, history []int32) error {
	penalty := float32(s.opt.RepetitionPenalty)
	if w := s.opt.RepetitionWindow; w > 0 && w < len(history) {
		history = history[len(history)-w:]
	}
	if len(s.seen) < len(logits) {
		s.seen = make([]uint64, len(logits))
	}
	s.call++
	for _, token := range history {
		if token < 0 || int(token) >= len(logits) {
			return fmt.Errorf("history: found token %d, want one from 0 to %d", token, len(logits)-1)
		}
		if s.seen[token] == s.call {
			continue
		}
		s.seen[token] = s.call
		x := &logits[token]
		switch {
		case *x > 0:
			*x = min(*x/penalty, math.MaxFloat32) // a penalty below 1 must not make the logit infinite
		case *x >= -math.MaxFloat32: // an excluded token stays excluded
			*x *= penalty
		}
	}
	return nil
}

// collectFrom makes candidates of the tokens whose logits are at least about floor, except those at -Inf.
func (s *Sampler) collectFrom(logits []float32, floor float64) {
	least := max(-math.MaxFloat32, math.Nextafter32(float32(floor), float32(math.Inf(-1))))
	s.left = s.left[:0]
	for i, x := range logits {
		if x >= least {
			s.left = append(s.left, candidate{token: int32(i), logit: x})
		}
	}
}

// fewTop is the largest top-k for which finding the k largest logits in one pass is faster.
const fewTop = 128

// collectTop makes candidates of the k tokens with the largest logits, or of fewer if the rest are at -Inf.
func (s *Sampler) collectTop(logits []float32, k int) {
	s.left = largestLogits(s.left[:0], logits, k)
	slices.SortFunc(s.left, func(a, b candidate) int { return int(a.token - b.token) })
}

// largestLogits returns the k tokens with the largest logits in the memory of heap, in any order, or fewer if the rest
// are at -Inf. The k largest so far are in a heap with the smallest at the top. Later tokens seldom enter it.
func largestLogits(heap []candidate, logits []float32, k int) []candidate {
	least := float32(-math.MaxFloat32) // logits must exceed this to enter the heap; it grows once the heap is full
	for from := 0; from < len(logits); from += heapBlock {
		block := logits[from:min(len(logits), from+heapBlock)]
		if top, bad := kernel.Largest(block); top < least && !bad {
			continue
		}
		for i, x := range block {
			if x < least {
				continue
			}
			c := candidate{token: int32(from + i), logit: x}
			if len(heap) < k {
				heap = append(heap, c)
				for at := len(heap) - 1; at > 0 && larger(heap[(at-1)/2], heap[at]); at = (at - 1) / 2 {
					heap[at], heap[(at-1)/2] = heap[(at-1)/2], heap[at]
				}
			} else {
				heap[0] = c
				siftDown(heap)
			}
			if len(heap) == k { // among equal ones, the first stays
				least = math.Nextafter32(heap[0].logit, float32(math.Inf(1)))
			}
		}
	}
	return heap
}

// heapBlock is the number of logits that are skipped at once if none of them is among the largest so far.
const heapBlock = 128

// siftDown moves the top of a heap down to its position.
func siftDown(heap []candidate) {
	for at := 0; ; {
		child := 2*at + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && larger(heap[child], heap[child+1]) {
			child++
		}
		if !larger(heap[at], heap[child]) {
			return
		}
		heap[at], heap[child] = heap[child], heap[at]
		at = child
	}
}

// cut keeps the candidates that are not smaller than last.
func (s *Sampler) cut(last candidate) {
	kept := s.left[:0]
	for _, c := range s.left {
		if !larger(last, c) {
			kept = append(kept, c)
		}
	}
	s.left = kept
}

// weigh sets the weights and returns their sum. weight/sum is the softmax. top is the largest logit, so the largest
// weight is 1 and none overflows.
func (s *Sampler) weigh(top float32) (sum float64) {
	for i := range s.left {
		c := &s.left[i]
		c.weight = s.weight(c.logit, top)
		sum += c.weight
	}
	return sum
}

// weight returns the weight of a logit.
func (s *Sampler) weight(logit, top float32) float64 {
	return math.Exp((float64(logit) - float64(top)) / s.opt.Temperature)
}

// nucleus returns the candidate at which the sum of weights, from the largest on, reaches least. It also reports
// whether the sum reaches most at the same candidate. If the sum never reaches least, nucleus returns the smallest
// candidate.
//
// Most of a vocabulary is far below any p. So instead of sorting all of it, nucleus sorts the 64 largest and, if their
// sum does not reach the target, four times as many of the rest, and so on.
func (s *Sampler) nucleus(least, most float64) (last candidate, sure bool) {
	s.sorted = append(s.sorted[:0], s.left...)
	rest := s.sorted
	reached := 0.0
	for n := 64; ; n *= 4 {
		block := rest[:min(n, len(rest))]
		selectLargest(rest, len(block))
		sortLargestFirst(block)
		for _, c := range block {
			if reached += c.weight; reached >= least {
				return c, reached >= most
			}
		}
		if rest = rest[len(block):]; len(rest) == 0 {
			return block[len(block)-1], false // rounding kept the sum slightly below
		}
	}
}

// draw returns one of the candidates whose weight is at least least, with a probability proportional to its weight. The
// random number r below 1 determines which.
func (s *Sampler) draw(least, r float64) int32 {
	sum := 0.0
	for _, c := range s.left {
		if c.weight >= least {
			sum += c.weight
		}
	}
	u := r * sum
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
	return last // also if rounding left a small rest of u
}

// State returns the state of the random number generator, for Restore.
func (s *Sampler) State() []byte {
	state, _ := s.pcg.MarshalBinary() // its error is always nil
	return state
}

// Restore restores the random number generator from a result of State.
func (s *Sampler) Restore(state []byte) error {
	if err := s.pcg.UnmarshalBinary(state); err != nil {
		return fmt.Errorf("state of random numbers: found %d bytes, want those that State returned: %w",
			len(state), err)
	}
	return nil
}
