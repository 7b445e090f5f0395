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
