package fit

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/table"
)

// TestChooseWeights checks that a rare class that is never the most probable is predicted once it is weighted, and that
// weights whose gain is only chance are not used.
func TestChooseWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	draw := func(says, spread float64) (p [][]float64, truths []int) {
		for i := range 200 {
			rare := 0.02 + spread*rng.Float64()
			if truths = append(truths, bool2int(i%20 == 0)); truths[i] == 1 {
				rare += says
			}
			p = append(p, []float64{1 - rare, rare})
		}
		return p, truths
	}
	plan := func() *Plan {
		return &Plan{Columns: []Column{{Column: table.Column{Kind: table.Category}, Target: true,
			Classes: []string{"common", "rare"}}}}
	}
	counts := []int{950, 50}
	p, truths := draw(0.3, 0.04)
	m := plan()
	var text string
	m.Weights, text = m.chooseWeights(p, truths, counts)
	if !strings.Contains(text, "one)^0.5 to tell the class: macro F1 1 on the validation part, 0.487 without") ||
		len(m.Weights) != 2 ||
		predicted(p[0], m.Weights) != 1 || predicted(p[1], m.Weights) != 0 {
		t.Errorf("found the weights %v, and %q", m.Weights, text)
	}
	taken := 0
	for range 100 {
		p, truths = draw(0, 0.1)
		if w, _ := m.chooseWeights(p, truths, counts); w != nil {
			taken++
		}
	}
	if taken > 4 { // 5 of 100 are expected by chance at 5 %, and F1 must rise, too
		t.Errorf("found weights taken in %d of 100 cases where they gain nothing", taken)
	}
}

func bool2int(x bool) int { return int(bit(x)) }

// TestWeightedTraining checks that a network trained with weights gives the probabilities of the data.
func TestWeightedTraining(t *testing.T) {
	p := &Plan{Weights: []float64{0.5, 10}, Weighted: true}
	got := p.probabilities([]float32{float32(math.Log(0.5 * 0.9)), float32(math.Log(10 * 0.1))})
	if math.Abs(got[0]-0.9) > 1e-6 || predicted(got, p.Weights) != 1 {
		t.Errorf("found %v", got)
	}
}

// TestClassMetrics checks that each class has its recall, precision and F1, and that a floor that is not exceeded is
// named.
func TestClassMetrics(t *testing.T) {
	s := newClassScore([]string{"a", "b", "c"})
	s.Confusion, s.Count, s.Majority = [][]int{{50, 0, 0}, {6, 4, 0}, {2, 1, 0}}, 63, 100*50./63
	s.finish()
	want := []ClassMetrics{
		{"a", 50, 58, 100, 100 * 50. / 58, 100. / 108}, {"b", 10, 5, 40, 80, 8. / 15}, {"c", 3, 0, 0, 0, 0},
	}
	for k, w := range want {
		if got := s.PerClass[k]; math.Abs(got.Precision-w.Precision)+math.Abs(got.F1-w.F1)+
			math.Abs(got.Recall-w.Recall) > 1e-9 || got.Class != w.Class || got.Predicted != w.Predicted {
			t.Errorf("found %+v, want %+v", got, w)
		}
	}
	if text := s.floor("a"); text != "" {
		t.Errorf("found %q for a network that beats it", text)
	}
	s = newClassScore([]string{"a", "b"})
	s.Confusion, s.Count, s.Majority = [][]int{{90, 0}, {10, 0}}, 100, 90
	s.finish()
	if text := s.floor("a"); !strings.Contains(text, `telling "a" in 90.00 %`) ||
		!strings.Contains(text, "nor by balanced accuracy") {
		t.Errorf("found %q", text)
	}
	s = newClassScore([]string{"a", "b"})
	s.Confusion, s.Count, s.Majority = [][]int{{80, 10}, {2, 8}}, 100, 90
	s.finish()
	if text := s.floor("a"); !strings.Contains(text, "but finds the others: balanced accuracy 84.44 %") {
		t.Errorf("found %q", text)
	}
}

// TestImportanceSize checks that long windows and many columns are permuted less often, or not at all.
func TestImportanceSize(t *testing.T) {
	for _, c := range [][5]int{ // windows, rows, columns; number of permuted windows and of permutations
		{200, 200 * 100, 4, 200, 3}, {200, 200 * 1000, 4, 20, 3}, {200, 200 * 10_000, 4, 8, 1}, {5, 5 * 100, 4, 5, 3},
		{200, 200 * 1_000_000, 33, 0, 0}, {2, 2 * 20_000, 10, 2, 1}, {3, 2, 2, 3, 3},
	} {
		if n, repeats := importanceSize(c[0], c[1], c[2]); n != c[3] || repeats != c[4] {
			t.Errorf("%v: found %d windows, %d times", c, n, repeats)
		}
	}
}

// TestDoubt checks that a rival that is only more certain about examples that are right anyway does not replace the
// network.
func TestDoubt(t *testing.T) {
	p := &Plan{Doubt: 0.05, Contenders: []*Contender{{Name: useNetwork, Title: "network", Error: 0.06},
		{Name: "logistic", Error: 0.02}, {Name: "boosted", Error: 0.015}}, Columns: []Column{{Target: true}}}
	if best := p.best(); best.Name != useNetwork {
		t.Errorf("found %+v", best)
	}
	if text := (&Model{plan: p}).Choice(); !strings.Contains(text, "no other is better on the validation set by more") {
		t.Errorf("found %q", text)
	}
	if p.Doubt = 0.042; p.best().Name != "boosted" {
		t.Errorf("found %+v", p.best())
	}
}
