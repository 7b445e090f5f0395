package anatomy

import (
	"math"
	"testing"
)

// TestReachOfDecays: a kernel a^j has 1 - a^(2m+2) of its energy at the lags up to m; one of zeros has no reach.
func TestReachOfDecays(t *testing.T) {
	const taps, share = 400, 0.9
	decays := []float64{0.9, 0, 0.5}
	k := Kernel{Taps: taps, Channels: len(decays), K: make([]float32, taps*len(decays))}
	for j := range taps {
		for c, a := range decays {
			if a > 0 {
				k.K[j*len(decays)+c] = float32(math.Pow(a, float64(j)))
			}
		}
	}
	got := k.Reach(share)
	want := []float64{
		math.Ceil(math.Log(1-share)/(2*math.Log(0.5)) - 1), math.Ceil(math.Log(1-share)/(2*math.Log(0.9)) - 1),
	}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("found the reach %v, want %v", got, want)
	}
	for j, x := range k.Left() {
		want := (math.Pow(0.9, 2*float64(j)) + math.Pow(0.5, 2*float64(j))) / 2
		if math.Abs(x-want) > 1e-5 {
			t.Fatalf("lag %d: found %g of the energy left, want %g", j, x, want)
		}
	}
	zero := Kernel{Taps: 3, Channels: 1, K: make([]float32, 3)}
	if zero.Left() != nil || zero.Reach(share) != nil {
		t.Error("a kernel of zeros has a reach")
	}
}
