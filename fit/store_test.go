package fit

import (
	"os"
	"path/filepath"
	"testing"
)

// TestStoreSpills checks that rows that do not fit into the allowed memory are in a file, which is removed when the
// store is closed.
func TestStoreSpills(t *testing.T) {
	defer func(n int) { mostInMemory = n }(mostInMemory)
	mostInMemory = 10
	dir := filepath.Join(t.TempDir(), "run")
	s := newStore(dir, 3)
	for i := range 100 {
		if err := s.add([]float32{float32(i), float32(2 * i), -1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.finish(); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if row := s.row(i); row[0] != float32(i) || row[1] != float32(2*i) || row[2] != -1 {
			t.Fatalf("row %d is %v", i, row)
		}
		s.release(i, i+1)
	}
	files, _ := os.ReadDir(dir)
	if err := s.close(); err != nil || len(files) != 1 {
		t.Errorf("found %d files, %v", len(files), err)
	}
	if files, _ = os.ReadDir(dir); len(files) != 0 {
		t.Errorf("%d files are left", len(files))
	}
}

// TestConformal checks that the width is the ⌈share·(n+1)⌉-th smallest, as in arXiv:1905.03222.
func TestConformal(t *testing.T) {
	for _, c := range []struct {
		n      int
		share  float64
		ranked float64 // for the numbers 1 to n
	}{{9, 0.8, 8}, {99, 0.8, 80}, {4, 0.9, 4}, {0, 0.8, 0}, {10, 0.5, 6}} {
		var x []float64
		for i := c.n; i > 0; i-- {
			x = append(x, float64(i))
		}
		if got := conformal(x, c.share); got != c.ranked {
			t.Errorf("%d numbers, share %g: found %g, want %g", c.n, c.share, got, c.ranked)
		}
	}
	p := &Plan{Levels: []float64{0.2, 0.5, 0.9}} // 0.9 - 0.2 is greater than 0.7 by a rounding error
	if got := rank(9, p.inside(0)); got != 7 || rank(0, 0) != 1 {
		t.Errorf("of nine numbers seven tenths have the rank %d, want 7", got)
	}
}

// TestErrorSum compares pinball losses and their mean with values computed by hand from published formulas.
func TestErrorSum(t *testing.T) {
	s := &errorSum{levels: []float64{0.1, 0.5, 0.9}, middle: 1, deviation: 2, steps: make([]oneSum, 1)}
	s.add(0, 3, []float64{1, 2, 4}) // losses 0.1·2, 0.5·1, 0.1·1
	s.add(0, 0, []float64{1, 2, 4}) // losses 0.9·1, 0.5·2, 0.1·4
	e := s.errors()
	want := 2 * ((0.2 + 0.5 + 0.1) + (0.9 + 1 + 0.4)) / 3 / 2
	if diff := e.CRPS - want; diff > 1e-12 || diff < -1e-12 || e.MAE != 1.5 || e.MSE != 2.5/4 || e.Coverage != 50 ||
		e.Steps[0].MAE != 1.5 {
		t.Errorf("found %+v, want a CRPS of %g", e, want)
	}
}
