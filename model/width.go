package model

import (
	"fmt"
	"math"
)

const (
	farthest = 0.2     // relative difference above which the nearest number is an error
	widest   = 1 << 16 // largest width tried
)

// FitWidth returns the shape with the d_model whose number of parameters is nearest to want, and that number. The inner
// width changes in proportion. A shape whose number differs from want by no more than within (0.05 for 5 %) is left
// unchanged. If no width comes as near, the inner width is changed as well. It returns an error if the number still
// differs by over 20 %. Widths are multiples of 8, or of the step that heads and groups need.
func (c *Config) FitWidth(want int, within float64) (Config, int, error) {
	n, err := c.CountParams()
	if err != nil {
		return *c, 0, err
	}
	if off(n, want) <= within {
		return *c, n, nil
	}
	step, err := c.widthStep()
	if err != nil {
		return *c, n, err
	}
	// The number grows with the width. A width that is too small for the shape (for its rotary dimensions, say) counts
	// as 0.
	size := func(d int) int {
		other := c.AtWidth(d)
		n, err := other.CountParams()
		if err != nil {
			return 0
		}
		return n
	}
	low, high := c.DModel%step, c.DModel // size(low) < want
	for ; size(high) < want; high += max(1, high/step) * step {
		if low = high; high > widest {
			return *c, n, fmt.Errorf("found no width up to %d with which it has %d parameters", widest, want)
		}
	}
	for high-low > step {
		if mid := low + (high-low)/step/2*step; size(mid) < want {
			low = mid
		} else {
			high = mid
		}
	}
	best := high
	if below := size(low); below > 0 && want-below < size(high)-want {
		best = low
	}
	shape, got := c.AtWidth(best), size(best)
	if off(got, want) > within {
		shape, got = shape.fitInner(got, want)
	}
	if off(got, want) > farthest {
		return *c, n, fmt.Errorf("found no width with which it has about %d parameters: it has %d with d_model %d",
			want, got, best)
	}
	return shape, got, nil
}

// fitInner changes the inner width of the MLPs, in steps of 8, so that the number of parameters comes nearest to want.
// n is the number of c. A shape without MLPs is returned unchanged.
func (c *Config) fitInner(n, want int) (Config, int) {
	wider := *c
	wider.DInner = c.Inner() + 8
	more, err := wider.CountParams()
	if err != nil || more <= n {
		return *c, n
	}
	steps := int(math.Round(float64(want-n) / float64(more-n)))
	wider.DInner = max(8, c.Inner()+8*steps)
	if more, err = wider.CountParams(); err != nil || off(more, want) >= off(n, want) {
		return *c, n
	}
	return wider, more
}

// off returns the relative difference between n and want.
func off(n, want int) float64 { return math.Abs(float64(n)/float64(want) - 1) }

// AtWidth returns the shape with another d_model and the width of its MLP in proportion.
func (c *Config) AtWidth(d int) Config {
	other := *c
	if other.DInner > 0 {
		other.DInner = max(8, (other.DInner*d/other.DModel+4)/8*8)
	}
	other.DModel = d
	return other
}

// widthStep returns the smallest multiple of 8 that can be added to the width of a valid shape so that it stays valid:
// heads and groups must divide the width.
func (c *Config) widthStep() (int, error) {
	var err error
	for step := 8; step <= max(8, c.DModel); step += 8 {
		wider := c.AtWidth(c.DModel + step)
		if err = wider.Validate(); err == nil {
			return step, nil
		}
	}
	return 0, fmt.Errorf("found no other width for the shape: %w", err)
}
