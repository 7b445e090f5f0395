package engine

import (
	"math"
	"strconv"
	"strings"
)

// Rotary is the rotary position embedding (arXiv:2104.09864) in the halves convention of GPT-NeoX and FlashAttention.
// The first Dim components of each head, as two halves (x1, x2), become
//
//	(x1 cos θ - x2 sin θ, x1 sin θ + x2 cos θ),   θ = position · base^(-2i/Dim), i < Dim/2
//
// The frequencies are rounded to float32 as in the official code. The zero value rotates nothing.
//
// With XPos (arXiv:2212.10554) queries are also multiplied by ζ^(position/XPos) and keys by ζ^(-position/XPos), ζ =
// (2i/Dim + 0.4)/1.4, so that scores decrease with the distance. FlashAttention counts positions from the middle of the
// sequence, which does not change the scores. Counted from its front, a sequence can grow. Keys reach the limit of
// float32 at 70·XPos positions.
type Rotary struct {
	Dim     int
	Base    float64 // 0 for 10000
	XPos    float64 // 512 in FlashAttention; 0 for none
	Scaling RotaryScaling
}

// RotaryScaling lowers the frequencies f_i of rotary positions, for texts longer than those in training:
//
//	f_i·(m_i + (1 - m_i)/Factor)
//
// where m_i, from 0 to 1, is the share of a frequency that is kept:
//
//	linear  m = 0
//	llama3  m = (r - Low)/(High - Low), r = Original·f_i/2π, the turns within the original length (Llama 3.1)
//	yarn    m = 1 - (i - i_High)/(i_Low - i_High), where frequency number i_r has r turns within the original length;
//	        i_High is rounded down and i_Low up (YaRN, arXiv:2309.00071, §3.2)
//
// as in the transformers library's modeling_rope_utils.py. The kind divided divides each frequency by its own divisor,
// as in GGUF files. Cosines and sines are multiplied by Magnitude. The zero value changes nothing.
type RotaryScaling struct {
	Kind      string  // "", linear, llama3, yarn or divided
	Factor    float64 // how many times longer texts may be
	Original  float64 // positions of a text in the original training
	Low, High float64 // turns: llama3's low_freq_factor and high_freq_factor, yarn's beta_slow and beta_fast
	Exact     bool    // yarn: i_Low and i_High are not rounded
	Magnitude float64 // 0 for 1
	Divisors  string  // divided: Dim/2 numbers, separated by colons
}

// RotaryScalings lists the values of RotaryScaling.Kind.
var RotaryScalings = []string{"", "linear", "llama3", "yarn", "divided"}

// InvFreq returns the scaled frequencies in float32.
func (r Rotary) InvFreq() []float32 {
	out, divisors := make([]float32, r.Dim/2), []float64(nil)
	if r.Scaling.Kind == "divided" {
		divisors, _ = ParseDivisors(r.Scaling.Divisors) // the mixer has checked them
	}
	for i := range out {
		f := r.frequency(i)
		switch {
		case divisors != nil:
			f /= divisors[i]
		case r.Scaling.Kind != "":
			m := r.kept(i, f)
			f *= m + (1-m)/r.Scaling.Factor
		}
		out[i] = float32(f)
	}
	return out
}

// Divisors returns, in float32, the numbers by which a scaling with a factor divides the frequencies.
func (r Rotary) Divisors() []float32 {
	out := make([]float32, r.Dim/2)
	for i := range out {
		m := r.kept(i, r.frequency(i))
		out[i] = float32(1 / (m + (1-m)/r.Scaling.Factor))
	}
	return out
}

// frequency returns frequency number i before scaling.
func (r Rotary) frequency(i int) float64 {
	return math.Pow(r.BaseOr10000(), -2*float64(i)/float64(r.Dim))
}

// kept returns the share m of frequency number i, f, that is not divided by Factor.
func (r Rotary) kept(i int, f float64) float64 {
	s := r.Scaling
	m := 0.0
	switch s.Kind {
	case "llama3":
		m = (s.Original*f/(2*math.Pi) - s.Low) / (s.High - s.Low)
	case "yarn":
		number := func(turns float64) float64 {
			return float64(r.Dim) * math.Log(s.Original/(2*math.Pi*turns)) / (2 * math.Log(r.BaseOr10000()))
		}
		from, to := number(s.High), number(s.Low)
		if !s.Exact {
			from, to = math.Floor(from), math.Ceil(to)
		}
		from, to = max(from, 0), min(to, float64(r.Dim-1))
		if from == to {
			to += 0.001 // as in the official code: a step
		}
		m = 1 - (float64(i)-from)/(to-from)
	}
	return min(max(m, 0), 1)
}

// Magnitude returns the factor of cosines and sines.
func (r Rotary) Magnitude() float64 {
	if r.Scaling.Magnitude == 0 {
		return 1
	}
	return r.Scaling.Magnitude
}

// ParseDivisors returns the numbers of RotaryScaling.Divisors.
func ParseDivisors(text string) ([]float64, error) {
	var out []float64
	for part := range strings.SplitSeq(text, ":") {
		x, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

// BaseOr10000 returns Base, or 10,000 if it is 0.
func (r Rotary) BaseOr10000() float64 {
	if r.Base == 0 {
		return 10000
	}
	return r.Base
}
