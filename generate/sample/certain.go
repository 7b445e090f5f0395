package sample

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/internal/kernel"
)

// A draw from a whole vocabulary computes an exponential in float64 for each token. But these are only summed and
// compared with a random number, and the result of the comparison is mostly certain from sums that are accurate to a
// millionth, which take a tenth of the time. Where it is not certain, all exponentials are computed. So the token is
// always the same.

// totals holds the approximate sums of the weights (see candidate) of blocks of logits.
type totals struct {
	blocks []float64
	all    float64 // sums of blocks
	part   float64 // upper bound of the relative error of every block
	top    float32 // the largest logit

	tops   []float32 // largest logit of each block
	scaled []float32 // scratch memory of block
}

const (
	// blockLen is the number of logits in a block.
	blockLen = 256
	// sumError is an upper bound of the relative error of kernel.SumExp.
	sumError = 1.05e-6
	// scaleError is an upper bound of the relative error of the sum of a block whose logits are divided by a
	// temperature in float32. For a difference z to the largest logit, three roundings have an error of up to
	// 3·2⁻²⁴·|z|. The mean of |z|, weighted by e^z, is at most log(blockLen), as it is less than the entropy.
	scaleError = 1.05e-6
	// Temperatures outside these limits are not worth an error bound of their own.
	leastTemperature, mostTemperature = 1.0 / 64, 64
)

// add sums the weights of all logits. It reports whether it could: only if choosing a token gives no error.
func (t *totals) add(logits []float32, temperature float64) bool {
	if !(temperature >= leastTemperature && temperature <= mostTemperature) || len(logits) == 0 {
		return false
	}
	t.blocks, t.tops, t.top, t.part = t.blocks[:0], t.tops[:0], float32(math.Inf(-1)), sumError
	if temperature != 1 {
		t.part += scaleError
	}
	for block := range slices.Chunk(logits, blockLen) {
		top, sum := kernel.SumExp(block)
		switch {
		case sum != sum && slices.ContainsFunc(block, func(x float32) bool { return !(x < -math.MaxFloat32) }):
			return false
		case sum != sum: // the block has no token
			top, sum = float32(math.Inf(-1)), 0
		case temperature != 1:
			sum = t.scale(block, top, float32(1/temperature))
		}
		t.blocks, t.tops, t.top = append(t.blocks, sum), append(t.tops, top), max(t.top, top)
	}
	t.all = 0
	for i, top := range t.tops {
		if t.blocks[i] > 0 {
			t.blocks[i] *= math.Exp((float64(top) - float64(t.top)) / temperature)
			t.all += t.blocks[i]
		}
	}
	return t.all > 0
}

// scale returns Σ e^((x-top)·by) of a block.
func (t *totals) scale(block []float32, top, by float32) float64 {
	t.scaled = slices.Grow(t.scaled[:0], blockLen)[:len(block)]
	for i, x := range block {
		t.scaled[i] = (x - top) * by
	}
	_, sum := kernel.SumExp(t.scaled) // the largest scaled logit is 0
	return sum
}

// rounding returns an upper bound of the rounding error of sums of exact weights, relative to the sum of all: n
// additions and n subtractions.
func rounding(n int) float64 { return float64(n) * 0x1p-51 }

// certain returns the token that exact weights choose for a random number r below 1, if that is certain.
func (s *Sampler) certain(logits []float32, r float64) (token int32, ok bool) {
	t := &s.totals
	switch p := s.opt.TopP; {
	case p > 0 && p < 1:
		const few = -9 // logarithm of the smallest weight that is considered
		s.collectFrom(logits, float64(t.top)+few*s.opt.Temperature)
		if len(s.left) > len(logits)/2 { // the exact choice is as fast
			return 0, false
		}
		s.weigh(t.top)
		off := t.part + rounding(len(logits))
		last, ok := s.nucleus(p*t.all*(1-off), p*t.all*(1+off))
		if !ok {
			return 0, false
		}
		s.cut(last)
	case s.opt.MinP > 0:
		const wider = 1 + 1e-9 // so that rounding drops no candidate
		s.collectFrom(logits, float64(t.top)+(math.Log(s.opt.MinP)*wider-1e-9)*s.opt.Temperature)
		s.weigh(t.top)
	default:
		return s.place(logits, r)
	}
	return s.draw(s.opt.MinP, r), true
}

// place returns the token at r, if that is certain, when the weights of all tokens divide the interval from 0 to 1.
func (s *Sampler) place(logits []float32, r float64) (token int32, ok bool) {
	t := &s.totals
	at, before, block := r*t.all, 0.0, 0
	for ; block < len(t.blocks)-1 && before+t.blocks[block] <= at; block++ {
		before += t.blocks[block]
	}
	// The error of the blocks before this one shifts its beginning. The error of all blocks shifts the position of r.
	doubt := t.part*(r*(t.all-before)+(1-r)*before) + rounding(len(logits))*t.all
	for i := block * blockLen; i < min(len(logits), (block+1)*blockLen); i++ {
		after := before + s.weight(logits[i], t.top)
		if at < after {
			return int32(i), at-before > doubt && after-at > doubt
		}
		before = after
	}
	return 0, false
}
