package cpu

import "testing"

// TestLongLived checks that slices are zeros, share no element and cannot grow into each other.
func TestLongLived(t *testing.T) {
	var all [][]float32
	for i := range 60 {
		n := []int{1, longLivedLeast - 1, longLivedLeast, 3*longLivedLeast + 5, longLivedLen / 3, longLivedLen + 1}[i%6]
		x := longLived(n)
		if len(x) != n || cap(x) < n || n >= longLivedLeast && cap(x) != n {
			t.Fatalf("%d floats: length %d, capacity %d", n, len(x), cap(x))
		}
		for _, v := range x {
			if v != 0 {
				t.Fatalf("%d floats hold %v", n, v)
			}
		}
		for j := range x {
			x[j] = float32(i + 1)
		}
		all = append(all, x)
	}
	for i, x := range all {
		for _, v := range x {
			if v != float32(i+1) {
				t.Fatalf("piece %d holds %v", i, v)
			}
		}
	}
}
