package figure

import (
	"encoding/json"
	"math"
	"testing"
)

// TestFloatsWithoutValue: what is not finite is null in JSON, and NaN again when it is read.
func TestFloatsWithoutValue(t *testing.T) {
	data, err := json.Marshal(Floats{1.5, math.NaN(), math.Inf(1), -1e-300, 0.1, 1e300})
	if err != nil || string(data) != `[1.5,null,null,-1e-300,0.1,1e+300]` {
		t.Errorf("found %s (%v)", data, err)
	}
	var f Floats
	if err := json.Unmarshal(data, &f); err != nil || len(f) != 6 || !math.IsNaN(f[1]) || !math.IsNaN(f[2]) {
		t.Errorf("read %v (%v)", f, err)
	}
	if err := json.Unmarshal([]byte(`["x"]`), &f); err == nil {
		t.Error("text was read as a number")
	}
}

// TestShownCells: pages show numbers with few digits, and leave texts and whole numbers as they are.
func TestShownCells(t *testing.T) {
	for cell, want := range map[string]string{
		"0.3333333333333333": "0.33333", "33.33333333333333 %": "33.333 %", "1e-09": "1e-09", "1234567": "1234567",
		"0.25": "0.25", "12 (0.25)": "12 (0.25)", "": "", "never": "never", "+Inf": "+Inf",
		"x 0.3333333333": "x 0.3333333333",
		"-1.2345678e-12": "-1.2346e-12",
	} {
		if got := shown(cell); got != want {
			t.Errorf("%q: shown as %q, want %q", cell, got, want)
		}
	}
}
