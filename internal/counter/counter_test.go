package counter

import "testing"

// TestMix64 checks the first outputs of SplitMix64 for the seed 0, as published with it.
func TestMix64(t *testing.T) {
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		if got := Mix64(uint64(i) * 0x9e3779b97f4a7c15); got != want {
			t.Errorf("number %d: %#x, want %#x", i, got, want)
		}
	}
}
