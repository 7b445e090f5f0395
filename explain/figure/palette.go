package figure

import (
	"fmt"
	"image/color"
	"math"
)

// The color scales. Lightness grows from one end to the other, or from the middle to both ends, so that the scales work
// for color-blind readers and for gray prints.
//
// On a light background, sequential is ColorBrewer's YlGnBu starting from white (colorbrewer2.org, where it is marked
// as safe for color-blind readers). On a dark one it is viridis (bids.github.io/colormap). Diverging is blue below zero
// and orange above it, two hues that can be distinguished with all common forms of color blindness.
var (
	sequentialLight = stops("ffffff", "edf8b1", "c7e9b4", "7fcdbb", "41b6c4", "1d91c0", "225ea8", "253494", "081d58")
	sequentialDark  = stops("2a1038", "472d7b", "3b528b", "2c728e", "21918c", "28ae80", "5ec962", "addc30", "fde725")
	divergingLight  = stops("0b3c78", "2a72b5", "74add8", "bfdcee", "ffffff", "fdd9ac", "f5a04a", "cf640c", "7f3404")
	divergingDark   = stops("9ad2ff", "55a3e6", "2f73b3", "254968", "232228", "6b411c", "ab661c", "e2933a", "ffcf8f")
)

// lineColorsDark is lineColors for a dark background, with lighter variants of colors that would be too dark.
var lineColorsDark = stops("3b9fdc", "e8742a", "1fb98b", "dd8fb9", "e69f00", "7cc4ee", "f0ede8", "a3a3a3")

// emptyColor is the color of a cell without a value.
var emptyColor = color.RGBA{232, 232, 232, 255}

// kindColors contains the colors of a diagram's boxes, in the order in which the kinds first appear: light tints of
// lineColors.
var kindColors = stops("cfe3f2", "f9d9c3", "c5e8dd", "f2dbe8", "f9e7c4", "d9eefa", "e4e4e4")

// stops returns colors from hexadecimal names.
func stops(names ...string) []color.RGBA {
	out := make([]color.RGBA, len(names))
	for i, name := range names {
		if _, err := fmt.Sscanf(name, "%02x%02x%02x", &out[i].R, &out[i].G, &out[i].B); err != nil {
			panic(err) // the names are those above
		}
		out[i].A = 255
	}
	return out
}

// hex returns the CSS name of a color.
func hex(c color.RGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

func hexes(all []color.RGBA) []string {
	out := make([]string, len(all))
	for i, c := range all {
		out[i] = hex(c)
	}
	return out
}

// scale maps values to colors.
type scale struct {
	lo, hi         float64 // limits; if log or diverging, of magnitudes: lo is the smallest with a color
	log, diverging bool
	stops          []color.RGBA
}

// newScale returns a scale for values with the ends lo and hi. If both are 0, the ends are those of the values. The
// page's script has the same rules (assets/scale.js):
//
//   - a diverging scale extends equally far on both sides of 0;
//   - a logarithmic scale uses the magnitudes of values, from the smallest that is not 0, or six decades below the
//     largest;
//   - if all values are equal, the other end is 0, or 1 if the values are 0.
func newScale(values []float64, lo, hi float64, log, diverging bool) scale {
	s := scale{lo: lo, hi: hi, log: log, diverging: diverging, stops: sequentialLight}
	if diverging {
		s.stops = divergingLight
	}
	sized := log || diverging
	if lo == 0 && hi == 0 {
		s.lo, s.hi = math.Inf(1), math.Inf(-1)
		for _, v := range values {
			if sized {
				v = math.Abs(v)
			}
			if fits(v) && !(log && v == 0) {
				s.lo, s.hi = min(s.lo, v), max(s.hi, v)
			}
		}
		if s.hi < s.lo {
			s.lo, s.hi = 0, 0
		}
	} else if sized {
		s.lo, s.hi = min(math.Abs(lo), math.Abs(hi)), max(math.Abs(lo), math.Abs(hi))
	}
	switch {
	case log:
		if s.hi == 0 {
			s.hi = 1
		}
		s.lo = max(s.lo, s.hi*1e-6)
		if s.lo == s.hi {
			s.lo = s.hi / 10
		}
	case diverging:
		s.lo = 0
		if s.hi == 0 {
			s.hi = 1
		}
	case s.lo == s.hi && s.lo == 0:
		s.hi = 1
	case s.lo == s.hi:
		s.lo, s.hi = min(s.lo, 0), max(s.hi, 0)
	}
	return s
}

// at returns the color of a value: emptyColor for NaN, and the color of an end for infinities.
func (s *scale) at(v float64) color.RGBA {
	if math.IsNaN(v) {
		return emptyColor
	}
	size, sign := v, 1.0
	if s.log || s.diverging {
		size = math.Abs(v)
		if v < 0 {
			sign = -1
		}
	}
	t := (size - s.lo) / (s.hi - s.lo)
	if s.log {
		t = math.Log(size/s.lo) / math.Log(s.hi/s.lo) // -Inf for 0
	}
	if t = min(max(t, 0), 1); math.IsNaN(t) {
		t = 0 // the range is too large for float64
	}
	if s.diverging {
		t = (1 + sign*t) / 2
	}
	return mix(s.stops, t)
}

// mix returns the color at t, from 0 to 1, along equidistant stops.
func mix(stops []color.RGBA, t float64) color.RGBA {
	place := t * float64(len(stops)-1)
	i := min(int(place), len(stops)-2)
	part := place - float64(i)
	a, b := stops[i], stops[i+1]
	between := func(x, y uint8) uint8 { return uint8(math.Round(float64(x)*(1-part) + float64(y)*part)) }
	return color.RGBA{between(a.R, b.R), between(a.G, b.G), between(a.B, b.B), 255}
}

// inkOn returns the color of letters with the most contrast on a background.
func inkOn(ground color.RGBA) color.RGBA {
	light := .299*float64(ground.R) + .587*float64(ground.G) + .114*float64(ground.B)
	if light < 140 {
		return color.RGBA{255, 255, 255, 255}
	}
	return inkColor
}
