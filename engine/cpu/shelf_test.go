package cpu

import "testing"

// TestShelved: what is handed out is zero, belongs to nobody else and cannot grow into its neighbour.
func TestShelved(t *testing.T) {
	var all [][]float32
	for i := range 60 {
		n := []int{1, shelfLeast - 1, shelfLeast, 3*shelfLeast + 5, shelfBuffer / 3, shelfBuffer + 1}[i%6]
		x := shelved(n)
		if len(x) != n || cap(x) < n || n >= shelfLeast && cap(x) != n {
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
