package sequences_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/sequences"
)

// TestSequences checks that tables are the same for one seed and differ between seeds, and that each sequence has one
// class, with the right frequencies. In the tables that are beyond simple models, the mean square of each column must
// be alike in all classes.
func TestSequences(t *testing.T) {
	again, other := sequences.All(1), sequences.All(2)
	for i, s := range sequences.All(1) {
		if s.Table != again[i].Table || s.Table == other[i].Table {
			t.Errorf("%s: found tables that do not depend on the seed alone", s.Name)
		}
		lines := strings.Split(strings.TrimSpace(s.Table), "\n")
		class, count := map[string]string{}, map[string]int{}
		square, rows := map[string]float64{}, map[string]float64{}
		for _, line := range lines[1:] {
			cells := strings.Split(line, ",")
			id, kind := cells[0], cells[len(cells)-1]
			if before, ok := class[id]; ok && before != kind {
				t.Fatalf("%s: sequence %s is %s and %s", s.Name, id, before, kind)
			} else if !ok {
				class[id] = kind
				count[kind]++
			}
			for _, cell := range cells[1 : len(cells)-1] {
				x, err := strconv.ParseFloat(cell, 64)
				if err != nil {
					t.Fatal(err)
				}
				square[kind] += x * x
			}
			rows[kind]++
		}
		if share := float64(count["B"]) / float64(len(class)); s.Name == "rareecho" && math.Abs(share-1./8) > 0.04 {
			t.Errorf("%s: found %.3g of the sequences in class B, want 1/8", s.Name, share)
		}
		if a, b := square["A"]/rows["A"], square["B"]/rows["B"]; s.Beyond && math.Abs(a-b) > 0.06*(a+b) {
			t.Errorf("%s: found the mean squares %g and %g, want them alike", s.Name, a, b)
		}
	}
}
