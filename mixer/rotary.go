package mixer

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
)

// rotaryOptions are the options for the frequencies of rotary positions (engine.Rotary).
type rotaryOptions struct {
	RotaryBase float64 `json:"rotary_base" min:"0" help:"of the frequencies of rotary positions; 0 for 10000"`
	Scaling    string  `json:"rotary_scaling" help:"for longer texts than before: linear, llama3, yarn or divided"`
	Factor     float64 `json:"rotary_factor" min:"0" help:"of this scaling: how many times longer"`
	Original   int     `json:"rotary_original" min:"0" help:"positions of texts before it: llama3, yarn"`
	Low        float64 `json:"rotary_low" min:"0" help:"turns in them: low_freq_factor, beta_slow; 0 for 1"`
	High       float64 `json:"rotary_high" min:"0" help:"high_freq_factor, beta_fast; 0 for llama3's 4, yarn's 32"`
	Magnitude  float64 `json:"rotary_magnitude" min:"0" help:"of cosines, sines; 0: yarn's 0.1·ln(factor) + 1, else 1"`
	Exact      bool    `json:"rotary_exact" help:"yarn: the bounds of its frequencies are not rounded"`
	Divisors   string  `json:"rotary_divisors" help:"divided: the divisor of each frequency, with : between them"`
}

// scaling returns the scaling of dim/2 frequencies.
func (o rotaryOptions) scaling(dim int) (s engine.RotaryScaling, err error) {
	if o.Scaling == "" {
		o.RotaryBase = 0
		if o != (rotaryOptions{}) {
			return s, fmt.Errorf("rotary_scaling: found none with options of one, want one of %q",
				engine.RotaryScalings[1:])
		}
		return s, nil
	}
	s = engine.RotaryScaling{Kind: o.Scaling, Factor: o.Factor, Original: float64(o.Original), Magnitude: o.Magnitude}
	switch {
	case !slices.Contains(engine.RotaryScalings, o.Scaling):
		return s, fmt.Errorf("rotary_scaling: found %q, want one of %q", o.Scaling, engine.RotaryScalings[1:])
	case dim == 0:
		return s, fmt.Errorf("rotary_scaling: found %s without rotary_emb_dim, want both", o.Scaling)
	case !(o.Magnitude >= 0) || math.IsInf(o.Magnitude, 0):
		return s, fmt.Errorf("rotary_magnitude: found %g, want a number of 0 or more", o.Magnitude)
	case o.Scaling == "divided":
		s.Divisors = o.Divisors
		return s, checkDivisors(o.Divisors, dim/2)
	case !(o.Factor >= 1) || math.IsInf(o.Factor, 0):
		return s, fmt.Errorf("rotary_factor: found %g, want a number of 1 or more", o.Factor)
	case o.Scaling == "linear":
		return s, nil
	case o.RotaryBase > 0 && o.RotaryBase <= 1:
		return s, fmt.Errorf("rotary_base: found %g together with rotary_scaling %s, want more than 1", o.RotaryBase,
			o.Scaling)
	case o.Original < 1:
		return s, fmt.Errorf("rotary_original: found %d, want 1 or more positions", o.Original)
	}
	s.Low, s.High = cmp.Or(o.Low, 1), cmp.Or(o.High, 4)
	if o.Scaling == "yarn" {
		s.Exact, s.High = o.Exact, cmp.Or(o.High, 32)
		s.Magnitude = cmp.Or(o.Magnitude, 0.1*math.Log(o.Factor)+1)
	}
	if !(s.Low > 0 && s.Low < s.High) || math.IsInf(s.High, 0) {
		return s, fmt.Errorf("rotary_low, rotary_high: found %g and %g, want 0 < low < high", s.Low, s.High)
	}
	return s, nil
}

// checkDivisors returns an error unless a text lists n positive numbers.
func checkDivisors(text string, n int) error {
	divisors, err := engine.ParseDivisors(text)
	if err != nil {
		return fmt.Errorf("rotary_divisors: %w", err)
	}
	if len(divisors) != n {
		return fmt.Errorf("rotary_divisors: found %d numbers, want one for each of %d frequencies", len(divisors), n)
	}
	for i, x := range divisors {
		if !(x > 0) || math.IsInf(x, 0) {
			return fmt.Errorf("rotary_divisors: found %g for frequency %d, want a number above 0", x, i)
		}
	}
	return nil
}
