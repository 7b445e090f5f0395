package memory

import (
	"context"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// memory returns the Part with everything that was recorded.
func (x *followed) memory(ctx context.Context, f *follow) (*Part, error) {
	m := &Part{
		Name: x.name, Rule: x.words(), Channels: x.channels, Numbers: x.size(), Step: f.step, Cells: f.cells,
		Written: x.written, Norm: x.norm, Rows: x.rows, Heat: x.heat, reach: 1,
		rows: x.rule == ruleRows,
	}
	for i, s := range x.shots {
		if s != nil {
			m.ShotAt, m.Shots = append(m.ShotAt, (i+1)*x.every-1), append(m.Shots, s)
			m.ShotRows, m.ShotCols = min(shotSide, x.channels), min(shotSide, x.inner)
		}
	}
	if len(m.Shots) == 0 {
		m.Rows, m.Heat = 0, nil // it was not recorded
	}
	switch {
	case x.rule == ruleRows:
		m.reach = f.w.l
		m.Left = bandLeft(f, x.kept)
		m.HalfLives = []float64{math.Inf(1)}
		if x.kept > 0 {
			m.HalfLives[0], m.reach = float64(x.kept), x.kept
		}
	case x.energies != nil && len(m.Shots) == 0:
		m.Left, m.HalfLives, m.reach = bandLeft(f, x.inner), []float64{float64(x.inner)}, 0
	case x.energies != nil:
		m.reach = f.w.l
		if x.rule == ruleRegister {
			m.reach = min(x.inner, f.w.l)
		}
		profiles := x.profiles(f.w.l)
		m.Left = x.profileLeft(f, profiles)
		m.HalfLives = profileHalves(profiles, x.channels)
	case x.groups > 0:
		m.reach = f.w.l
		m.Left = x.decayLeft(f)
		m.HalfLives = x.decayHalves(f)
	case x.trace != nil:
		m.reach = f.w.l
		var err error
		if m.Left, err = x.tanhLeft(ctx, f); err != nil {
			return nil, err
		}
	}
	slices.Sort(m.HalfLives)
	return m, ctx.Err()
}

// words describes what a part does from token to token.
func (x *followed) words() string {
	switch x.rule {
	case ruleDecay:
		switch {
		case x.gate:
			return "multiplied by a trained gate at the end of each block"
		case x.fixed:
			return "multiplied by fixed decays"
		}
		return "multiplied by decays that depend on the token"
	case ruleModes:
		return "turned and multiplied by fixed complex decays"
	case ruleRegister:
		return "moved by one place: the last inputs"
	case ruleMatrix:
		return "multiplied by a fixed matrix in each channel"
	case ruleTanh:
		return "multiplied by a matrix, and by the gates of its tanh as they are"
	case ruleRows:
		if x.kept > 0 {
			return "a row for each of the last tokens"
		}
		return "a row for each token"
	}
	return "not linear in itself"
}

// bandLeft returns the map of a part that keeps each token completely for kept tokens and then forgets it. A kept of 0
// means forever.
func bandLeft(f *follow, kept int) []float32 {
	left := newLeft(f)
	for t := range f.cells {
		at := min(f.w.l, (t+1)*f.step) - 1
		for s := range t + 1 {
			n := 0
			for j := s * f.step; j < min(f.w.l, (s+1)*f.step); j++ {
				if j <= at && (kept == 0 || at-j < kept) {
					n++
				}
			}
			left[t*f.cells+s] = float32(math.Sqrt(float64(n) / float64(min(f.w.l, (s+1)*f.step)-s*f.step)))
		}
	}
	return left
}

// newLeft returns a map filled with NaN.
func newLeft(f *follow) []float32 {
	return slices.Repeat([]float32{float32(math.NaN())}, f.cells*f.cells)
}

// profileLeft returns the map of a part with one direction in each channel. What is left of token s at t has the energy
// Σ_c e_c[s] E_c(t-s), a product of two matrices.
func (x *followed) profileLeft(f *follow, profiles []float32) []float32 {
	l, d := f.w.l, x.channels
	tape := autograd.NewTape(f.w.tape.Backend())
	e := tensor.FromSlice(x.energies, l, d)
	sums, written := make([]float64, f.cells*f.cells), make([]float64, f.cells)
	const block = 256
	y := make([]float32, block*l)
	for from := 0; from < l; from += block {
		n, ages := min(block, l-from), l-from // ages: possible ages of what was written from there on
		p := tensor.FromSlice(profiles[:ages*d], ages, d)
		tape.Linear(tape.Slice(e, from, n), p, nil, engine.None).CopyTo(y[:n*ages])
		tape.Reset()
		for i := range n {
			s := from + i
			cell := s / f.step
			for t := cell; t < f.cells; t++ {
				age := min(l, (t+1)*f.step) - 1 - s
				sums[t*f.cells+cell] += float64(y[i*ages+age])
			}
			written[cell] += float64(y[i*ages])
		}
	}
	return shares(f, sums, written)
}

// shares divides the remaining energies by those that were written.
func shares(f *follow, sums, written []float64) []float32 {
	left := newLeft(f)
	for t := range f.cells {
		for s := range t + 1 {
			if written[s] > 0 {
				left[t*f.cells+s] = float32(math.Sqrt(max(0, sums[t*f.cells+s]) / written[s]))
			}
		}
	}
	return left
}

// decayLeft returns the map of a part in which each number fades by itself.
func (x *followed) decayLeft(f *follow) []float32 {
	sums := make([]float64, f.cells*f.cells)
	parallel.Each(f.cells, func(s int) {
		e := slices.Clone(x.cellSum[s])
		for t := s; t < f.cells; t++ {
			if t > s {
				kernel.Mul(e, x.cellFade[t])
			}
			total := sumOf(e)
			if sums[t*f.cells+s] = total; total < 1e-14*x.cellOf[s] {
				return // the rest is negligible
			}
		}
	})
	return shares(f, sums, x.cellOf)
}

// sumOf returns Σ x. It adds a few numbers at a time in float32.
func sumOf(x []float32) float64 {
	sum := 0.0
	for part := range slices.Chunk(x, 128) {
		sum += float64(kernel.Dot(part, explain.Ones))
	}
	return sum
}

// decayHalves returns half-lives for the mean of ln a over the text.
func (x *followed) decayHalves(f *follow) []float64 {
	step := 1
	if x.rule == ruleModes {
		step = 2
	}
	var out []float64
	for g := 0; g < x.groups; g += step {
		rate := 0.0
		for c := range x.slow {
			rate += x.slow[c][g] / float64(f.w.l-1)
		}
		out = append(out, HalfLife(rate))
	}
	return out
}

// HalfLife returns ln 2/rate, or +Inf if the decay is too slow to be visible in float32.
func HalfLife(rate float64) float64 {
	if rate < 1e-7 {
		return math.Inf(1)
	}
	return math.Ln2 / rate
}

// profileHalves returns the ages at which a quarter of the energy is left, which is half of the norm. Beyond the
// profile, the rate of its second half is extrapolated.
func profileHalves(profiles []float32, channels int) []float64 {
	l := len(profiles) / channels
	out := make([]float64, 0, channels)
	for c := range channels {
		at := func(t int) float64 { return float64(profiles[t*channels+c]) }
		if at(0) == 0 {
			continue // nothing was written
		}
		quarter := at(0) / 4
		t := 1
		for t < l && at(t) > quarter {
			t++
		}
		if t < l && at(t) < 1e-12*at(0) { // everything is lost at once, as from a register
			out = append(out, float64(t))
			continue
		}
		if t < l {
			hi, lo := math.Log(at(t-1)), math.Log(max(at(t), 1e-300))
			out = append(out, float64(t-1)+(hi-math.Log(quarter))/max(hi-lo, 1e-12))
			continue
		}
		mid := (l - 1) / 2
		rate := math.Log(at(mid)/at(l-1)) / float64(max(1, l-1-mid))
		if !(rate > 2e-7) {
			out = append(out, math.Inf(1))
			continue
		}
		out = append(out, float64(l-1)+math.Log(at(l-1)/quarter)/rate)
	}
	return out
}

// tanhLeft follows the sums of what the tokens of each cell wrote as vectors.
func (x *followed) tanhLeft(ctx context.Context, f *follow) ([]float32, error) {
	n := x.size()
	tape, r := autograd.NewTape(f.w.tape.Backend()), tensor.FromSlice(x.r, n, n)
	left := newLeft(f)
	v := make([]float32, 0, f.cells*n) // for each cell so far
	first := make([]float64, f.cells)
	before := make([]float32, n)
	for t, s := range x.trace {
		if t%64 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		g := x.gates(s)
		all := append(v, before...)
		y := tape.New(len(all)/n, n)
		y.CopyFrom(all)
		tape.Linear(y, r, nil, engine.None).CopyTo(all)
		tape.Reset()
		for i := range all {
			all[i] *= float32(g[i%n])
		}
		v = all[:len(v)]
		wrote, sum := make([]float32, n), 0.0
		for i, y := range all[len(v):] {
			wrote[i] = s[i] - y
			sum += float64(wrote[i]) * float64(wrote[i])
		}
		x.written[t] = math.Sqrt(sum)
		cell := t / f.step
		if t%f.step == 0 {
			v = append(v, wrote...)
		} else {
			for i, y := range wrote {
				v[cell*n+i] += y
			}
		}
		before = s
		if (t+1)%f.step != 0 && t != f.w.l-1 {
			continue
		}
		for c := range cell + 1 {
			e := 0.0
			for _, y := range v[c*n:][:n] {
				e += float64(y) * float64(y)
			}
			if c == cell {
				first[c] = e
			}
			if first[c] > 0 {
				left[cell*f.cells+c] = float32(math.Sqrt(e / first[c]))
			}
		}
	}
	return left, nil
}
