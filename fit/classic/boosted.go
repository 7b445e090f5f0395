package classic

import (
	"fmt"
	"math"
	"slices"
)

// Boosted is a sum of regression trees. Each is fitted to the gradient of the loss that the previous trees leave
// (Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics 29, 2001), with second
// derivatives as in XGBoost (arXiv:1603.02754). A leaf with the sums G of gradients and H of second derivatives adds
// -rate G/(H + λ). A node is split where G²/(H + λ) of its parts exceeds its own by most.
type Boosted struct {
	Scale   Scale     `json:"scale"`
	Outputs int       `json:"outputs"`
	Start   []float64 `json:"start"` // for each output
	// Trees contains the trees of the outputs 0, 1, ..., 0, 1, ...
	Trees []Tree `json:"trees"`
}

// Tree is a binary tree of splits: node i has the children 2i+1 and 2i+2. At each node, examples with x[Feature] <= Cut
// go to the first child.
type Tree struct {
	Feature []int     `json:"f"`
	Cut     []float32 `json:"c"`
	Leaf    []float32 `json:"v"`
}

// Shape of boosted trees.
const (
	treeDepth   = 3
	treeRate    = 0.1
	treePenalty = 1.0
	treeBins    = 32
	leastLeaf   = 5    // examples
	mostTrees   = 1000 // for all outputs
	mostRounds  = 150
	patience    = 20 // rounds
)

// booster fits trees.
type booster struct {
	train   *Examples
	outputs int
	depth   int
	rate    float64
	penalty float64
	least   int         // minimum examples of a leaf
	cuts    [][]float64 // of each feature, ascending
	bins    []uint8     // (n, width): the number of cuts below each value
	g, h    []float64
	node    []int
}

// FitBoosted fits trees for classes, of which there are outputs, or for numbers. If rounds is not 0, it is the number
// of rounds. Otherwise it is the number with the smallest loss on the validation examples, 0 if no tree is better than
// none. It is returned.
func FitBoosted(train, valid *Examples, scale Scale, outputs, rounds int) (*Boosted, int) {
	b := &booster{train: train, outputs: outputs, depth: treeDepth, rate: treeRate, penalty: treePenalty,
		least: leastLeaf}
	return b.fit(valid, scale, rounds)
}

func (b *booster) fit(valid *Examples, scale Scale, rounds int) (*Boosted, int) {
	b.bin()
	n := b.train.Len()
	b.g, b.h, b.node = make([]float64, n), make([]float64, n), make([]int, n)
	m := &Boosted{Scale: scale, Outputs: b.outputs, Start: b.start()}
	now, held := m.starts(n), m.starts(valid.Len())
	fixed := rounds > 0
	if !fixed {
		rounds = max(1, min(mostRounds, mostTrees/b.outputs))
	}
	best, start := 0, losses(valid, held, b.outputs)
	least, lowest := mean(start), start
	for round := range rounds {
		before := slices.Clone(now)
		for k := range b.outputs {
			b.derivatives(before, k)
			t := b.grow()
			m.Trees = append(m.Trees, t)
			for i := range n {
				now[i*b.outputs+k] += float64(t.value(b.train.X[i*b.train.Width:][:b.train.Width]))
			}
			for i := range valid.Len() {
				held[i*b.outputs+k] += float64(t.value(valid.X[i*valid.Width:][:valid.Width]))
			}
		}
		if now := losses(valid, held, b.outputs); mean(now) < least {
			best, least, lowest = round+1, mean(now), now
		}
		if !fixed && round+1 > best+patience {
			break
		}
	}
	switch {
	case fixed:
		best = rounds
	case !lower(lowest, start):
		best = 0
	}
	m.Trees = m.Trees[:best*b.outputs]
	return m, best
}

// start returns the best constant: the logarithms of the shares of classes, or the means.
func (b *booster) start() []float64 {
	y := make([]float64, b.outputs)
	n := b.train.Len()
	for _, c := range b.train.Class {
		y[c]++
	}
	for k := range y {
		y[k] = math.Log((y[k] + 0.5) / (float64(n) + 0.5*float64(b.outputs)))
	}
	if b.train.Class == nil {
		clear(y)
		for i, v := range b.train.Y {
			y[i%b.outputs] += v / float64(n)
		}
	}
	return y
}

func (m *Boosted) starts(n int) (all []float64) {
	for range n {
		all = append(all, m.Start...)
	}
	return all
}

// losses returns the cross-entropy of each example, or the sum of its absolute errors.
func losses(e *Examples, y []float64, outputs int) []float64 {
	all := make([]float64, e.Len())
	for i := range all {
		row := slices.Clone(y[i*outputs : (i+1)*outputs])
		if e.Class != nil {
			all[i] = -logSoftmax(row)[e.Class[i]]
			continue
		}
		for k := range row {
			all[i] += math.Abs(row[k] - e.Y[i*outputs+k])
		}
	}
	return all
}

func mean(x []float64) (sum float64) {
	for _, v := range x {
		sum += v / float64(len(x))
	}
	return sum
}

// lower reports whether losses are lower than others for the same examples by more than the standard error of their
// mean difference: the best of many rounds is a little lower by chance.
func lower(losses, others []float64) bool {
	rise, square := 0.0, 0.0
	for i := range losses {
		d := others[i] - losses[i]
		rise, square = rise+d, square+d*d
	}
	return rise > math.Sqrt(square)
}

// derivatives sets g and h to the derivatives of the loss with respect to output k.
func (b *booster) derivatives(now []float64, k int) {
	for i := range b.g {
		row := now[i*b.outputs : (i+1)*b.outputs]
		if b.train.Class == nil {
			b.g[i], b.h[i] = row[k]-b.train.Y[i*b.outputs+k], 1
			continue
		}
		p := math.Exp(logSoftmax(slices.Clone(row))[k])
		b.g[i], b.h[i] = p, max(1e-6, p*(1-p))
		if b.train.Class[i] == k {
			b.g[i]--
		}
	}
}

// bin chooses cuts of each feature, at most treeBins-1, between distinct values.
func (b *booster) bin() {
	n, width := b.train.Len(), b.train.Width
	b.cuts, b.bins = make([][]float64, width), make([]uint8, n*width)
	x := make([]float64, n)
	for j := range width {
		for i := range x {
			x[i] = b.train.X[i*width+j]
		}
		slices.Sort(x)
		for k := 1; k < treeBins; k++ {
			at := k * n / treeBins
			for at > 0 && at < n && x[at] == x[at-1] {
				at++
			}
			if at == 0 || at >= n {
				continue
			}
			cut := float64(float32((x[at-1] + x[at]) / 2))
			if last := len(b.cuts[j]) - 1; cut >= x[at-1] && cut < x[at] && (last < 0 || cut > b.cuts[j][last]) {
				b.cuts[j] = append(b.cuts[j], cut)
			}
		}
		for i := range n {
			at, _ := slices.BinarySearch(b.cuts[j], b.train.X[i*width+j])
			b.bins[i*width+j] = uint8(at)
		}
	}
}

// sums holds the sums of gradients and second derivatives, and the number of examples.
type sums struct{ g, h, n float64 }

func (s sums) score(penalty float64) float64 { return s.g * s.g / (s.h + penalty) }

func (s *sums) add(o sums) { s.g, s.h, s.n = s.g+o.g, s.h+o.h, s.n+o.n }

// grow grows a tree on g and h, level by level.
func (b *booster) grow() Tree {
	width := b.train.Width
	inner := 1<<b.depth - 1
	t := Tree{Feature: make([]int, inner), Cut: make([]float32, inner), Leaf: make([]float32, inner+1)}
	clear(b.node)
	for level := range b.depth {
		first, count := 1<<level-1, 1<<level
		hist := make([]sums, count*width*treeBins)
		all := make([]sums, count)
		for i, node := range b.node {
			one := sums{b.g[i], b.h[i], 1}
			all[node-first].add(one)
			h := hist[(node-first)*width*treeBins:]
			for j, bin := range b.bins[i*width : (i+1)*width] {
				h[j*treeBins+int(bin)].add(one)
			}
		}
		at := make([]int, count) // for each node, the index of its cut among those of the feature
		for node := range count {
			t.Cut[first+node], at[node] = math.MaxFloat32, treeBins // all examples to the first child
			most := all[node].score(b.penalty) + 1e-12
			for j := range width {
				var left sums
				for k := range b.cuts[j] {
					left.add(hist[(node*width+j)*treeBins+k])
					right := sums{all[node].g - left.g, all[node].h - left.h, all[node].n - left.n}
					if left.n < float64(b.least) || right.n < float64(b.least) {
						continue
					}
					if s := left.score(b.penalty) + right.score(b.penalty); s > most {
						most = s
						t.Feature[first+node], t.Cut[first+node], at[node] = j, float32(b.cuts[j][k]), k
					}
				}
			}
		}
		for i, node := range b.node {
			child := 2*node + 1
			if int(b.bins[i*width+t.Feature[node]]) > at[node-first] {
				child++
			}
			b.node[i] = child
		}
	}
	leaves := make([]sums, inner+1)
	for i, node := range b.node {
		leaves[node-inner].add(sums{b.g[i], b.h[i], 1})
	}
	for k, s := range leaves {
		if s.n > 0 {
			t.Leaf[k] = float32(-b.rate * s.g / (s.h + b.penalty))
		}
	}
	return t
}

// value returns the value of the leaf for scaled features.
func (t *Tree) value(x []float64) float32 {
	node := 0
	for node < len(t.Feature) {
		next := 2*node + 1
		if x[t.Feature[node]] > float64(t.Cut[node]) {
			next++
		}
		node = next
	}
	return t.Leaf[node-len(t.Feature)]
}

// Predict sets y to the outputs for features, which it scales in place.
func (m *Boosted) Predict(x, y []float64) {
	m.Scale.Apply(x)
	copy(y, m.Start)
	for i := range m.Trees {
		y[i%m.Outputs] += float64(m.Trees[i].value(x))
	}
}

// Check returns an error unless the model has the shape.
func (m *Boosted) Check(width, outputs int) error {
	if m.Outputs != outputs || len(m.Start) != outputs || len(m.Trees)%max(1, outputs) != 0 {
		return fmt.Errorf("found %d trees for %d outputs, want as many for each of %d", len(m.Trees), m.Outputs,
			outputs)
	}
	for i := range m.Trees {
		t := &m.Trees[i]
		n := len(t.Feature)
		if n == 0 || (n+1)&n != 0 || len(t.Cut) != n || len(t.Leaf) != n+1 ||
			slices.ContainsFunc(t.Feature, func(f int) bool { return f < 0 || f >= width }) {
			return fmt.Errorf("tree %d: found %d cuts, %d leaves and a feature that is not among %d", i, n, len(t.Leaf),
				width)
		}
	}
	return m.Scale.check(width)
}
