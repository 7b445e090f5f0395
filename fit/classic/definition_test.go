package classic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestFeaturesByDefinition: features of random rows are sums by their definitions.
func TestFeaturesByDefinition(t *testing.T) {
	const channels = 3
	rng := rand.New(rand.NewPCG(6, 6))
	for _, n := range []int{1, 2, 3, 5, 32, 70} {
		rows := make([]float32, n*channels)
		for i := range rows {
			rows[i] = float32(rng.NormFloat64() + 3*float64(i%channels))
		}
		whole := Whole(rows, channels)
		for c := range channels {
			var x []float64
			mean, square := 0.0, 0.0
			for i := range n {
				x = append(x, float64(rows[i*channels+c]))
				mean += x[i] / float64(n)
			}
			for _, v := range x {
				square += (v - mean) * (v - mean) / float64(n)
			}
			slope := 0.0
			if n > 1 {
				slope = slopeOf(rows, channels, c)
			}
			sorted := slices.Sorted(slices.Values(x))
			want := []float64{mean, math.Sqrt(square), sorted[0], sorted[n-1], x[n-1], slope, sorted[(n-1)/4],
				sorted[(n-1)/2], sorted[3*(n-1)/4]}
			for size, band := 2, 0; band < spectralBands; band++ {
				for size < n {
					size *= 2
				}
				sum := 0.0
				for k := 1; k <= size/2; k++ {
					at := float64(k) / float64(size/2) // of half the rate
					low, high := math.Pow(0.5, float64(band+1)), math.Pow(0.5, float64(band))
					if band < spectralBands-1 && at <= low || at > high {
						continue
					}
					var re, im float64
					for i, v := range x {
						sin, cos := math.Sincos(2 * math.Pi * float64(k*i) / float64(size))
						re, im = re+(v-mean)*cos, im+(v-mean)*sin
					}
					sum += re*re + im*im
				}
				want = append(want, math.Log(1e-6+sum/float64(n*size)))
			}
			for k, w := range want {
				name := fmt.Sprintf("%d rows, channel %d, %s", n, c, wholeNames[k])
				near(t, name, whole[c*len(wholeNames)+k], w, 1e-6)
			}
		}
		for r := range n {
			got := OfRow(nil, rows, channels, r)
			var want []float64
			for c := range channels {
				at := func(i int) float64 { return float64(rows[i*channels+c]) }
				want = append(want, at(r), at(r)-at(max(0, r-1)))
				for _, span := range []int{4, 16, 64} {
					var x []float64
					for i := max(0, r-span+1); i <= r; i++ {
						x = append(x, at(i))
					}
					mean, square := 0.0, 0.0
					for _, v := range x {
						mean += v / float64(len(x))
					}
					for _, v := range x {
						square += (v - mean) * (v - mean) / float64(len(x))
					}
					want = append(want, mean, math.Sqrt(square), slices.Min(x), slices.Max(x))
				}
			}
			for k, w := range want {
				near(t, fmt.Sprintf("row %d, feature %d", r, k), got[k], w, 1e-6)
			}
		}
	}
}

// TestScale: features are less their mean, by their deviation, within bounds; one that does not change stays.
func TestScale(t *testing.T) {
	s := ScaleOf([]float64{1, 10, 5, 3, 10, 5, 8, 10, 5 + 1e-10}, 3)
	d := math.Sqrt((9. + 1 + 16) / 3)
	for k, want := range []float64{4, 10, 5, d, 1, 1} {
		near(t, "scale", append(slices.Clone(s.Mean), s.Deviation...)[k], want, 1e-6)
	}
	x := []float64{4 + 2*d, 11, 5, 4 + 9*d, 1, 5}
	s.Apply(x)
	for k, want := range []float64{2, 1, 0, 8, -8, 0} {
		near(t, "scaled", x[k], want, 1e-6)
	}
	l := Linear{Scale: s, Weights: []float32{1, 2, 3, 4}, Outputs: 1}
	y := []float64{0}
	if l.Predict([]float64{4 + d, 12, 5}, y); math.Abs(y[0]-9) > 1e-6 {
		t.Errorf("found %g, want 1 + 2·2 + 4", y[0])
	}
	if err := l.Check(3, 1); err != nil {
		t.Error(err)
	}
	for _, bad := range []Linear{{s, l.Weights, 2}, {s, l.Weights[1:], 1},
		{Scale{s.Mean[1:], s.Deviation}, l.Weights, 1},
		{Scale{s.Mean, s.Deviation[1:]}, l.Weights, 1}, {Scale{s.Mean, []float64{1, 0, 1}}, l.Weights, 1}} {
		if bad.Check(3, 1) == nil {
			t.Errorf("found no error for %+v", bad)
		}
	}
}

// TestStrengths: noise gets the strongest penalty, what is sure the weakest, and one that is given is taken.
func TestStrengths(t *testing.T) {
	train, valid := cloud(7, 60, 6, 3), cloud(8, 60, 6, 3)
	unit := Scale{Mean: make([]float64, 6), Deviation: []float64{1, 1, 1, 1, 1, 1}}
	if _, s := FitLogistic(train, valid, unit, 3, 0); s > 1e-3 {
		t.Errorf("found the penalty %g for classes that are told", s)
	}
	_, s := FitLogistic(train, valid, unit, 3, 0.3)
	strong, _ := FitLogistic(train, valid, unit, 3, 1)
	weak, _ := FitLogistic(train, valid, unit, 3, 1e-4)
	if s != 0.3 || math.Abs(float64(strong.Weights[0])) > 0.3*math.Abs(float64(weak.Weights[0])) {
		t.Errorf("found the penalty %g, and the weights %g and %g of a strong and a weak one", s, strong.Weights[0],
			weak.Weights[0])
	}
	for i := range train.Class {
		train.Class[i], valid.Class[i] = i%3, i%3
	}
	if _, s := FitLogistic(train, valid, unit, 3, 0); s < 0.1 {
		t.Errorf("found the penalty %g for noise", s)
	}
	for _, e := range []*Examples{train, valid} {
		for i := range e.Len() {
			e.Y = append(e.Y, 3*e.X[6*i], -2*e.X[6*i+1]+7)
		}
	}
	if l, s := FitRidge(train, valid, unit, 2, 0); s != 1e-4 || math.Abs(float64(l.Weights[0])-3) > 0.01 ||
		math.Abs(float64(l.Weights[3])+2) > 0.01 || math.Abs(float64(l.Weights[13])-7) > 0.01 {
		t.Errorf("found the penalty %g and the weights %v", s, l.Weights)
	}
	rng := rand.New(rand.NewPCG(9, 9))
	for _, e := range []*Examples{train, valid} {
		for i := range e.Y {
			e.Y[i] = rng.NormFloat64()
		}
	}
	if _, s := FitRidge(train, valid, unit, 2, 0); s != 1 {
		t.Errorf("found the penalty %g for noise", s)
	}
}

// grown is a tree by its definition: a leaf, or a cut with two trees.
type grown struct {
	feature     int
	cut, leaf   float64
	left, right *grown
}

func (g *grown) value(x []float64) float64 {
	for g.left != nil {
		if x[g.feature] <= g.cut {
			g = g.left
		} else {
			g = g.right
		}
	}
	return g.leaf
}

// grow grows a tree on some examples by trying every cut.
func grow(x [][]float64, cuts [][]float64, g, h []float64, at []int, depth int) *grown {
	of := func(at []int) (sg, sh float64) {
		for _, i := range at {
			sg, sh = sg+g[i], sh+h[i]
		}
		return sg, sh
	}
	score := func(at []int) float64 { sg, sh := of(at); return sg * sg / (sh + 1) }
	if depth == 0 {
		if sg, sh := of(at); len(at) > 0 {
			return &grown{leaf: -0.1 * sg / (sh + 1)}
		}
		return &grown{}
	}
	out, most := &grown{cut: math.Inf(1)}, score(at)+1e-12
	split := func(j int, cut float64) (l, r []int) {
		for _, i := range at {
			if x[i][j] <= cut {
				l = append(l, i)
			} else {
				r = append(r, i)
			}
		}
		return l, r
	}
	for j := range cuts {
		for _, cut := range cuts[j] {
			if l, r := split(j, cut); len(l) >= 5 && len(r) >= 5 && score(l)+score(r) > most {
				most, out.feature, out.cut = score(l)+score(r), j, cut
			}
		}
	}
	l, r := split(out.feature, out.cut)
	out.left, out.right = grow(x, cuts, g, h, l, depth-1), grow(x, cuts, g, h, r, depth-1)
	return out
}

// TestBoostedByDefinition: trees of classes and of numbers are those of the definition, up to the round with the least
// loss on the validation examples.
func TestBoostedByDefinition(t *testing.T) {
	const width, n = 3, 90
	for _, outputs := range []int{2, 3} {
		rng := rand.New(rand.NewPCG(10, uint64(outputs)))
		var all [3]*Examples
		for k := range all {
			e := &Examples{Width: width}
			for range n {
				a, b, c := rng.NormFloat64(), rng.NormFloat64(), float64(rng.IntN(3)) // with ties
				e.X = append(e.X, a, b, c)
				if outputs == 3 {
					class := rng.IntN(3)
					if rng.Float64() < 0.9 {
						class = min(2, int(math.Abs(a*b)+c/3))
					}
					e.Class = append(e.Class, class)
				} else {
					e.Y = append(e.Y, a*b+c+0.3*rng.NormFloat64(), 5+a+0.5*rng.NormFloat64())
				}
			}
			all[k] = e
		}
		unit := Scale{Mean: make([]float64, width), Deviation: []float64{1, 1, 1}}
		m, rounds := FitBoosted(all[0], all[1], unit, outputs, 0)
		want, best := byDefinition(all[0], all[1], all[2], outputs)
		if rounds != best || rounds < 3 || len(m.Trees) != rounds*outputs {
			t.Errorf("%d outputs: found %d rounds and %d trees, want %d rounds", outputs, rounds, len(m.Trees), best)
		}
		y := make([]float64, outputs)
		for i := range all[2].Len() { // some cuts part the training examples alike: which is taken is up to rounding
			m.Predict(slices.Clone(all[2].X[i*width:(i+1)*width]), y)
			for k := range y {
				near(t, fmt.Sprintf("output %d of example %d", k, i), y[k], want[i*outputs+k], 5e-3)
			}
		}
		again, count := FitBoosted(all[0], all[1], unit, outputs, rounds)
		if count != rounds || fmt.Sprint(again.Trees) != fmt.Sprint(m.Trees) {
			t.Errorf("%d outputs: found other trees for %d rounds that were asked for", outputs, count)
		}
	}
}

// byDefinition are the outputs for examples after the rounds with the least loss, by the definition.
func byDefinition(train, valid, test *Examples, outputs int) (outs []float64, best int) {
	width, n := train.Width, train.Len()
	x := slices.Collect(slices.Chunk(train.X, width))
	cuts := make([][]float64, width)
	for j := range cuts {
		var column []float64
		for _, row := range x {
			column = append(column, row[j])
		}
		slices.Sort(column)
		for k := 1; k < 32; k++ {
			at := k * n / 32
			for at > 0 && at < n && column[at] == column[at-1] {
				at++
			}
			if at > 0 && at < n {
				cuts[j] = append(cuts[j], float64(float32((column[at-1]+column[at])/2)))
			}
		}
		cuts[j] = slices.Compact(cuts[j])
	}
	start := make([]float64, outputs)
	for k := range start {
		for i := range n {
			switch {
			case train.Class == nil:
				start[k] += train.Y[i*outputs+k] / float64(n)
			case train.Class[i] == k:
				start[k]++
			}
		}
		if train.Class != nil {
			start[k] = math.Log((start[k] + 0.5) / (float64(n) + 0.5*float64(outputs)))
		}
	}
	begin := func(e *Examples) (y [][]float64) {
		for range e.Len() {
			y = append(y, slices.Clone(start))
		}
		return y
	}
	softmax := func(y []float64) (p []float64) {
		sum := 0.0
		for _, v := range y {
			sum += math.Exp(v)
		}
		for _, v := range y {
			p = append(p, math.Exp(v)/sum)
		}
		return p
	}
	now, held, tests := begin(train), begin(valid), begin(test)
	lossOf := func() (sum float64) {
		for i, y := range held {
			if valid.Class != nil {
				sum -= math.Log(softmax(y)[valid.Class[i]])
				continue
			}
			for k := range y {
				sum += math.Abs(y[k] - valid.Y[i*outputs+k])
			}
		}
		return sum
	}
	least := lossOf()
	snapshot := slices.Concat(tests...)
	for round := 1; round <= 150 && round <= best+21; round++ {
		var trees []*grown
		for k := range outputs {
			g, h, every := make([]float64, n), make([]float64, n), make([]int, n)
			for i := range n {
				every[i] = i
				if train.Class == nil {
					g[i], h[i] = now[i][k]-train.Y[i*outputs+k], 1
					continue
				}
				p := softmax(now[i])[k]
				g[i], h[i] = p, p*(1-p)
				if train.Class[i] == k {
					g[i]--
				}
			}
			trees = append(trees, grow(x, cuts, g, h, every, 3))
		}
		for _, part := range []struct {
			y [][]float64
			e *Examples
		}{{now, train}, {held, valid}, {tests, test}} {
			for i := range part.y {
				for k, tree := range trees {
					part.y[i][k] += tree.value(part.e.X[i*width : (i+1)*width])
				}
			}
		}
		if l := lossOf(); l < least {
			least, best, snapshot = l, round, slices.Concat(tests...)
		}
	}
	return snapshot, best
}

// TestLower: losses are lower if the mean difference is above its standard error.
func TestLower(t *testing.T) {
	for _, c := range []struct {
		now, before []float64
		want        bool
	}{
		{[]float64{1, 2, 3}, []float64{2, 3, 4}, true}, {[]float64{2, 3, 4}, []float64{1, 2, 3}, false},
		{[]float64{5, 1, 3}, []float64{2, 3, 4.5}, false}, {[]float64{1, 1, 1, 1}, []float64{4, 1, 1, 1}, false},
		{[]float64{1, 1, 1, 1}, []float64{2, 1.1, 1, 1}, true},
	} {
		if got := lower(c.now, c.before); got != c.want {
			t.Errorf("%v and %v: found %v, want %v", c.now, c.before, got, c.want)
		}
	}
}

// TestBoostedCheck: a model of another shape is an error.
func TestBoostedCheck(t *testing.T) {
	tree := func() Tree {
		return Tree{Feature: []int{0, 1, 0}, Cut: make([]float32, 3), Leaf: make([]float32, 4)}
	}
	for name, change := range map[string]func(m *Boosted){
		"":        func(*Boosted) {},
		"outputs": func(m *Boosted) { m.Outputs = 2 },
		"start":   func(m *Boosted) { m.Start = nil },
		"feature": func(m *Boosted) { m.Trees[0].Feature[1] = 2 },
		"before":  func(m *Boosted) { m.Trees[0].Feature[1] = -1 },
		"cuts":    func(m *Boosted) { m.Trees[0].Cut = nil },
		"leaves":  func(m *Boosted) { m.Trees[0].Leaf = make([]float32, 3) },
		"nodes":   func(m *Boosted) { m.Trees[0] = Tree{make([]int, 2), make([]float32, 2), make([]float32, 3)} },
		"empty":   func(m *Boosted) { m.Trees[0] = Tree{Leaf: make([]float32, 1)} },
		"scale":   func(m *Boosted) { m.Scale.Mean = nil },
	} {
		m := &Boosted{Scale: Scale{[]float64{0, 0}, []float64{1, 1}}, Outputs: 1, Start: []float64{0},
			Trees: []Tree{tree()}}
		change(m)
		if err := m.Check(2, 1); (err == nil) != (name == "") {
			t.Errorf("%s: found %v", name, err)
		}
	}
	m := &Boosted{Outputs: 2, Start: []float64{0, 0}, Trees: []Tree{tree()}}
	if err := m.Check(2, 2); err == nil || !strings.Contains(err.Error(), "found 1 trees for 2 outputs") {
		t.Errorf("found %v", err)
	}
}
