package figure

import (
	"fmt"
	"image/color"
	"math"
)

// The scales of colors. Each grows in lightness from one end to the other, or from its middle to both ends, so that
// color-blind readers see it, and so does who prints it in gray.
//
// Sequential on a light ground is ColorBrewer's YlGnBu from white on (colorbrewer2.org, marked there as safe for the
// color-blind), on a dark one viridis (bids.github.io/colormap). Diverging is blue below zero and orange above it, the
// two hues that all common forms of color blindness tell apart.
var (
	sequentialLight = stops("ffffff", "edf8b1", "c7e9b4", "7fcdbb", "41b6c4", "1d91c0", "225ea8", "253494", "081d58")
	sequentialDark  = stops("2a1038", "472d7b", "3b528b", "2c728e", "21918c", "28ae80", "5ec962", "addc30", "fde725")
	divergingLight  = stops("0b3c78", "2a72b5", "74add8", "bfdcee", "ffffff", "fdd9ac", "f5a04a", "cf640c", "7f3404")
	divergingDark   = stops("9ad2ff", "55a3e6", "2f73b3", "254968", "232228", "6b411c", "ab661c", "e2933a", "ffcf8f")
)

// lineColorsDark are lineColors for a dark ground: those that are too dark for it lighter.
var lineColorsDark = stops("3b9fdc", "e8742a", "1fb98b", "dd8fb9", "e69f00", "7cc4ee", "f0ede8", "a3a3a3")

// emptyColor is the color of a cell that has no value.
var emptyColor = color.RGBA{232, 232, 232, 255}

// kindColors color the boxes of a diagram, in the order in which kinds of boxes appear: light tints of lineColors.
var kindColors = stops("cfe3f2", "f9d9c3", "c5e8dd", "f2dbe8", "f9e7c4", "d9eefa", "e4e4e4")

// stops are colors by their hexadecimal names.
func stops(names ...string) []color.RGBA {
	out := make([]color.RGBA, len(names))
	for i, name := range names {
		if _, err := fmt.Sscanf(name, "%02x%02x%02x", &out[i].R, &out[i].G, &out[i].B); err != nil {
			panic(err) // they are those above
		}
		out[i].A = 255
	}
	return out
}

// hex is the name of a color in CSS.
func hex(c color.RGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

func hexes(all []color.RGBA) []string {
	out := make([]string, len(all))
	for i, c := range all {
		out[i] = hex(c)
	}
	return out
}

// scale is the way from values to colors.
type scale struct {
	lo, hi         float64 // of the size of values, if log or diverging: then lo is the smallest that has a color
	log, diverging bool
	stops          []color.RGBA
}

// newScale is a scale for values, with ends at lo and hi, or those of the values where both are 0. The page's script
// has the same rules (assets/scale.js):
//
//   - a diverging scale goes as far on both sides of 0;
//   - a logarithmic one goes by the size of values, from the smallest that is not 0, or six decades below the largest;
//   - where all values are one, the other end is 0, or 1 if they are 0.
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

// at is the color of a value: emptyColor for NaN, that of an end for what is infinite.
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
		t = math.Log(size/s.lo) / math.Log(s.hi/s.lo) // of 0: -Inf
	}
	if t = min(max(t, 0), 1); math.IsNaN(t) {
		t = 0 // the ends are too far apart
	}
	if s.diverging {
		t = (1 + sign*t) / 2
	}
	return mix(s.stops, t)
}

// mix is the color at t, from 0 to 1, along stops that lie at equal distances.
func mix(stops []color.RGBA, t float64) color.RGBA {
	place := t * float64(len(stops)-1)
	i := min(int(place), len(stops)-2)
	part := place - float64(i)
	a, b := stops[i], stops[i+1]
	between := func(x, y uint8) uint8 { return uint8(math.Round(float64(x)*(1-part) + float64(y)*part)) }
	return color.RGBA{between(a.R, b.R), between(a.G, b.G), between(a.B, b.B), 255}
}

// inkOn is the color of letters that have the most contrast on a ground.
func inkOn(ground color.RGBA) color.RGBA {
	light := .299*float64(ground.R) + .587*float64(ground.G) + .114*float64(ground.B)
	if light < 140 {
		return color.RGBA{255, 255, 255, 255}
	}
	return inkColor
}
