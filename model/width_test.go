package model

import (
	"strings"
	"testing"
)

// TestFitWidth checks that models get close to the requested number of parameters, with widths that their heads allow,
// and that no other width gets closer.
func TestFitWidth(t *testing.T) {
	for name, sizes := range map[string][]int{
		"tiny": {100_000, 888_704, 5_000_000}, "mamba2-tiny": {100_000, 5_000_000},
		"gss-tiny": {200_000, 888_704}, "h3-125m": {5_000_000, 300_000_000},
	} {
		for _, want := range sizes {
			c, err := Preset(name)
			if err != nil {
				t.Fatal(err)
			}
			c.VocabSize = 256
			shape, n, err := c.FitWidth(want, .05)
			if err != nil || off(n, want) > farthest {
				t.Errorf("%s: %d parameters, %v, want %d", name, n, err, want)
				continue
			}
			if got, err := shape.CountParams(); err != nil || got != n {
				t.Errorf("%s: %d parameters, %v, but %d reported", name, got, err, n)
			}
			for _, d := range []int{shape.DModel - 8, shape.DModel + 8} {
				other := c.AtWidth(d)
				m, err := other.CountParams()
				if err == nil && off(m, want) < off(n, want) && off(n, want) > .05 {
					t.Errorf("%s: width %d has %d parameters, width %d %d, want %d", name, shape.DModel, n, d, m, want)
				}
			}
		}
	}
	c, err := Preset("attention-tiny")
	if err != nil {
		t.Fatal(err)
	}
	c.VocabSize = 256
	if shape, _, err := c.FitWidth(888_704, .05); err != nil || shape.DModel != 128 {
		t.Errorf("a shape of nearly the size became %d wide, %v", shape.DModel, err)
	}
	for _, want := range []int{300_000, 849_152, 3_000_000} { // steps of the width alone change these by 5 to 20 %
		if shape, n, err := c.FitWidth(want, .01); err != nil || off(n, want) > .01 {
			t.Errorf("%d parameters, %v, with the inner width %d, want %d within 1 %%", n, err, shape.DInner, want)
		}
	}
	if _, _, err := c.FitWidth(1000, .05); err == nil || !strings.Contains(err.Error(), "about 1000 parameters") {
		t.Errorf("a size that cannot be: %v", err)
	}
}
