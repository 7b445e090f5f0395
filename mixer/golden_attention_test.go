package mixer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestGoldenLinearAttention compares with the official causal linear attention: output and gradients in parallel, the
// state after it, and step by step.
func TestGoldenLinearAttention(t *testing.T) {
	golden.Of(t, "linear-attention")
	const tol = 1e-5 // the golden file's own float32 tolerance
	golden.Run(t, "07_linear_attention", func(t *testing.T, c golden.Case) {
		s, m := c.Shape("in/q"), c.Shape("in/v")[3]
		b, l, heads, e := s[0], s[1], s[2], s[3]
		var cfg struct{ Eps float32 }
		c.Config(&cfg)
		opt := engine.LinearOptions{Heads: heads, Eps: cfg.Eps}
		start := func() (s, z engine.Slots) {
			return slots(b, tensor.New(b, heads*e*m)), slots(b, tensor.New(b, heads*e))
		}
		q, k, v := leaf(c.F32("in/q"), b*l, heads*e), leaf(c.F32("in/k"), b*l, heads*e),
			leaf(c.F32("in/v"), b*l, heads*m)
		tape := recording()
		sums, norms := start()
		y := tape.LinearAttention(q, k, v, opt, engine.EqualRows(b, l), sums, norms)
		golden.Close(t, "y", read(y), c.F64("out/y"), tol)
		golden.Close(t, "S", after(sums), c.F64("out/state_S"), tol)
		golden.Close(t, "z", after(norms), c.F64("out/state_Z"), tol)
		tape.BackwardFrom(y, tensor.FromSlice(c.F32("in/dy"), y.Shape()...))
		golden.Close(t, "gradient of q", gradient(tape, q), c.F64("grad/in/q"), tol)
		golden.Close(t, "gradient of k", gradient(tape, k), c.F64("grad/in/k"), tol)
		golden.Close(t, "gradient of v", gradient(tape, v), c.F64("grad/in/v"), tol)

		plain := newTape()
		sums, norms = start()
		want := c.F64("out/y_recurrent")
		for i := range l {
			at := func(name string, n int) []float32 { return timeStep(c.F32(name), b, l, n, i) }
			y = plain.LinearAttention(leaf(at("in/q", heads*e), b, heads*e), leaf(at("in/k", heads*e), b, heads*e),
				leaf(at("in/v", heads*m), b, heads*m), opt, engine.EqualRows(b, 1), sums, norms)
			golden.Close(t, "stepped y", read(y), timeStep(want, b, l, heads*m, i), tol)
		}
		golden.Close(t, "S of the steps", after(sums), c.F64("out/state_S"), tol)
	})
}

// timeStep returns position i of every sequence of x (b, l, n).
func timeStep[T any](x []T, b, l, n, i int) []T {
	var out []T
	for j := range b {
		out = append(out, x[(j*l+i)*n:][:n]...)
	}
	return out
}

// TestGoldenALiBi compares with the official slopes, and softmax attention with and without them, with gradients.
func TestGoldenALiBi(t *testing.T) {
	golden.Run(t, "07_alibi_slopes", func(t *testing.T, c golden.Case) {
		for _, name := range c.Names() {
			heads := c.Shape(name)[0]
			golden.Close(t, name, alibiSlopes(heads), c.F64(name), 1e-14)
		}
	})
	golden.Run(t, "07_softmax_alibi", func(t *testing.T, c golden.Case) {
		const tol = 1e-5
		s := c.Shape("in/q")
		b, heads, l, hd := s[0], s[1], s[2], s[3]
		golden.Close(t, "slopes", alibiSlopes(heads), c.F64("slopes"), 1e-7) // the file's are rounded to float32
		qkv := leaf(packHeads(c, "in/q", "in/k", "in/v"), b*l, 3*heads*hd)
		for name, alibi := range map[string]bool{"out/plain": false, "out/alibi": true} {
			tape := recording()
			y := tape.Attention(qkv, engine.EqualRows(b, l), nil, engine.AttentionOptions{Heads: heads, ALiBi: alibi})
			golden.Close(t, name, read(y), wide(mergeHeads(c.F32(name), b, heads, l, hd)), tol)
			if !alibi {
				continue
			}
			tape.BackwardFrom(y, tensor.FromSlice(mergeHeads(c.F32("in/dy"), b, heads, l, hd), y.Shape()...))
			golden.Close(t, "gradients", gradient(tape, qkv),
				wide(packHeads(c, "grad/in/q", "grad/in/k", "grad/in/v")), tol)
		}
	})
}

// mergeHeads converts the official (b, heads, l, head_dim) to (b, l, heads·head_dim).
func mergeHeads(x []float32, b, heads, l, hd int) []float32 {
	out := make([]float32, len(x))
	for i := range b * heads * l {
		bh, at := i/l, i%l
		copy(out[((bh/heads*l+at)*heads+bh%heads)*hd:][:hd], x[i*hd:])
	}
	return out
}

// packHeads converts three official (b, heads, l, head_dim) to (b, l, 3·heads·head_dim).
func packHeads(c golden.Case, names ...string) []float32 {
	s := c.Shape(names[0])
	b, heads, l, hd := s[0], s[1], s[2], s[3]
	d := heads * hd
	out := make([]float32, b*l*3*d)
	for three, name := range names {
		for i, x := 0, mergeHeads(c.F32(name), b, heads, l, hd); i < b*l; i++ {
			copy(out[(3*i+three)*d:][:d], x[i*d:])
		}
	}
	return out
}

func wide(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// TestGoldenBigBird compares with the official dense mask of visible blocks, read out of the attention, and with the
// attention under it. The random choice of the official code is given as a table.
func TestGoldenBigBird(t *testing.T) {
	golden.Of(t, "bigbird")
	golden.Run(t, "07_bigbird", func(t *testing.T, c golden.Case) {
		var cfg struct {
			Seq, Block, Heads int
			RandBlocks        int `json:"rand_blocks"`
		}
		c.Config(&cfg)
		l, heads, hd := cfg.Seq, cfg.Heads, c.Shape("in/q")[2]
		inner := c.Shape("in/rand_attn")[1]
		for _, v := range []struct{ plan, mask, y string }{
			{"in/rand_attn", "out/mask", "out/y"}, {"out/rand_attn_with_head", "out/mask_with_head", ""},
		} {
			plan := c.I64(v.plan)
			blocks := &engine.Blocks{Size: cfg.Block, Window: 1, Global: 1, Ahead: true,
				Plan: func(head, block int) []int {
					var out []int
					for _, k := range plan[(head*inner+block-1)*cfg.RandBlocks:][:cfg.RandBlocks] {
						out = append(out, int(k))
					}
					return out
				}}
			attend := func(qkv []float32, hd int) []float32 {
				x := leaf(qkv, l, 3*heads*hd)
				return read(newTape().Attention(x, engine.NewRows(l), nil,
					engine.AttentionOptions{Heads: heads, Blocks: blocks}))
			}
			if v.y != "" {
				got := attend(packPlain(c, l, heads, hd), hd)
				golden.Close(t, "y", got, wide(mergeHeads(c.F32(v.y), 1, heads, l, hd)), 1e-5)
			}
			// Without queries, all visible keys have equal weights. Values that are one-hot rows show which keys those
			// are.
			qkv := make([]float32, l*3*heads*l)
			for i := range l {
				for h := range heads {
					qkv[i*3*heads*l+2*heads*l+h*l+i] = 1
				}
			}
			got, want := attend(qkv, l), c.I64(v.mask)
			for h := range heads {
				for i := range l {
					for j := range l {
						if seen := got[(i*heads+h)*l+j] > 0; seen != (want[(h*l+i)*l+j] > 0) {
							t.Fatalf("%s: head %d, query %d, key %d: seen is %v", v.mask, h, i, j, seen)
						}
					}
				}
			}
		}
	})
}

// packPlain is packHeads of q, k, v (heads, l, head_dim).
func packPlain(c golden.Case, l, heads, hd int) []float32 {
	out := make([]float32, l*3*heads*hd)
	for three, name := range []string{"in/q", "in/k", "in/v"} {
		for i, x := 0, mergeHeads(c.F32(name), 1, heads, l, hd); i < l; i++ {
			copy(out[(3*i+three)*heads*hd:][:heads*hd], x[i*heads*hd:])
		}
	}
	return out
}

// TestGoldenBucketAttention compares with the official layer in its five forms, with gradients. When looking ahead, the
// release uses the keys of selected buckets as their values; the file also has its numbers without that mistake.
func TestGoldenBucketAttention(t *testing.T) {
	golden.Of(t, "bucket-attention")
	golden.Run(t, "07_sinkhorn_attn", func(t *testing.T, c golden.Case) {
		const tol = 1e-5
		var cfg struct {
			Dim         int
			Bucket      int `json:"bucket_size"`
			Max         int `json:"max_seq_len"`
			Heads       int
			Causal      bool
			Simple      bool `json:"use_simple_sort_net"`
			Top         int  `json:"n_top_buckets"`
			Temperature float64
		}
		c.Config(&cfg)
		build := func(keysAsValues bool) Mixer {
			o := Options{
				"bucket": fmt.Sprint(cfg.Bucket), "l_max": fmt.Sprint(cfg.Max), "top": fmt.Sprint(cfg.Top),
				"temperature": fmt.Sprint(cfg.Temperature), "bidirectional": fmt.Sprint(!cfg.Causal),
				"keys_as_values": fmt.Sprint(keysAsValues),
			}
			if cfg.Simple {
				o["sort_net"] = "simple"
			}
			m, err := BucketAttentionInfo.New(Config{DModel: cfg.Dim, NumHeads: cfg.Heads, Options: o})
			if err != nil {
				t.Fatal(err)
			}
			fillGolden(t, c, m)
			return m
		}
		m := build(!cfg.Causal)
		s := c.Shape("in/x")
		x, rows := leaf(c.F32("in/x"), s[0]*s[1], s[2]), equalRows(s[0], s[1])
		tape := recording()
		y := m.Forward(tape, x, rows)
		golden.Close(t, "y", read(y), c.F64("out/y"), tol)
		tape.BackwardFrom(y, tensor.FromSlice(c.F32("in/dy"), y.Shape()...))
		golden.Close(t, "gradient of x", gradient(tape, x), c.F64("grad/in/x"), tol)
		checkGrads(t, tape, c, m, tol)
		if !cfg.Causal {
			golden.Close(t, "y as meant", read(build(false).Forward(newTape(), x, rows)),
				c.F64("out/y_fixed"), tol)
		}
	})
}

// TestSpAttenPrunes checks that the layer equals plain attention until something has to be pruned, and differs
// afterwards. Quantized keys change little, and nothing while the tape records.
func TestSpAttenPrunes(t *testing.T) {
	golden.Of(t, "spatten")
	const l = 48
	plain := variant{build: AttentionInfo.New, cfg: Config{NumHeads: 2, RotaryDim: 2}}.mixer(t)
	pruned := func(keep, progressive string) Mixer {
		o := Options{"block": "16", "keep": keep, "progressive": progressive}
		return variant{build: SpAttenInfo.New, cfg: Config{NumHeads: 2, RotaryDim: 2, Options: o}}.mixer(t)
	}
	u := sequences(3, 2, l)
	want := read(plain.Forward(newTape(), u, equalRows(2, l)))
	golden.Close(t, "y with all tokens kept", read(pruned("48", "0").Forward(newTape(), u, equalRows(2, l))),
		wide(want), chunkTol)
	few, _ := chunked(pruned("4", "0"), u, []int{l}, never)
	near(t, "y before the first pruning", cut(few, 2, 0, 16), cut(want, 2, 0, 16), chunkTol)
	if slices.Equal(cut(few, 2, 16, l), cut(want, 2, 16, l)) {
		t.Error("pruning changes nothing")
	}
	coarse := pruned("48", "0.5")
	got, _ := chunked(coarse, u, []int{20, 1, 27}, never)
	near(t, "y with quantised keys", got, want, 0.1)
	if slices.Equal(got, want) {
		t.Error("quantised keys change nothing")
	}
	recorded, _ := chunked(coarse, u, []int{20, 1, 27}, always)
	near(t, "y while the tape records", recorded, want, chunkTol)
}

// TestSpAttenFormula checks that the layer is attention to the remaining tokens and heads, in which a query reads only
// the values of its largest weights, and that the counts are those of that formula.
func TestSpAttenFormula(t *testing.T) {
	const l, heads, hd, block, keep, values = 45, 4, dModel / 4, 8, 10, 3
	m := variant{build: SpAttenInfo.New, cfg: Config{NumHeads: heads, Options: Options{"block": "8", "keep": "10",
		"keep_heads": "2", "values": "3"}}}.mixer(t).(*SpAtten)
	var keys, read int64
	checkFormula(t, m, l, func(u matrix) matrix {
		keys, read = 0, 0
		qkv := u.each(affine(m.Wqkv))
		var left []int // tokens
		importance, mass := make([]float64, l), make([]float64, heads)
		y := make(matrix, l)
		for i := range u {
			left, y[i] = append(left, i), make([]float64, dModel)
			for h := range heads {
				if mass[h] < 0 {
					continue
				}
				part := func(kind, j int) []float64 { return qkv[j][kind*dModel+h*hd:][:hd] }
				p, sum := make([]float64, len(left)), 0.0
				for at, j := range left {
					p[at] = math.Exp(dotOf(part(0, i), part(1, j)) / math.Sqrt(hd))
					sum += p[at]
				}
				sorted := slices.Sorted(slices.Values(p))
				least := sorted[max(0, len(p)-values)]
				for at, j := range left {
					importance[j] += p[at] / sum
					if p[at] >= least {
						read++
						for c, x := range part(2, j) {
							y[i][h*hd+c] += p[at] / sum * x
						}
					}
				}
				keys += int64(len(left))
				for _, x := range y[i][h*hd:][:hd] {
					mass[h] += math.Abs(x)
				}
			}
			if (i+1)%block != 0 {
				continue
			}
			active := slices.DeleteFunc(slices.Clone(mass), func(x float64) bool { return x < 0 })
			if len(active) > 2 {
				mass[slices.Index(mass, slices.Min(active))] = -1
			}
			slices.SortFunc(left, func(a, b int) int { return cmp.Compare(importance[b], importance[a]) })
			left = left[:min(len(left), keep)]
			slices.Sort(left)
		}
		return y.each(affine(m.Out))
	})
	var counts engine.SpAttenCounts
	plain := variant{build: AttentionInfo.New, cfg: Config{NumHeads: 2}}.mixer(t)
	if !CountReads(m, &counts) || CountReads(plain, nil) {
		t.Error("SpAtten counts what it reads, attention does not")
	}
	m.Forward(newTape(), sequences(3, 1, l), equalRows(1, l))
	if k, v, all := counts.Keys.Load(), counts.Values.Load(), counts.All.Load(); k > all || k != keys ||
		v != read || all != heads*l*(l+1)/2 || counts.High.Load() != 0 {
		t.Errorf("found %d keys and %d values read of %d, want %d and %d", k, v, all, keys, read)
	}
	for progressive, lower := range map[string]float64{"1": 1, "1e-6": 0} { // always or never flat
		m := variant{build: SpAttenInfo.New, cfg: Config{NumHeads: 2,
			Options: Options{"progressive": progressive}}}.mixer(t)
		var counts engine.SpAttenCounts
		CountReads(m, &counts)
		m.Forward(newTape(), sequences(3, 1, l), equalRows(1, l))
		high, low := counts.High.Load(), counts.Low.Load()
		const alone = 2 // the first position of each head sees one key, whose weight is 1
		if high != counts.Keys.Load() || float64(low) < lower*float64(high-alone) || lower == 0 && low > 0 {
			t.Errorf("progressive %s: %d keys in upper bits, %d in lower ones", progressive, high, low)
		}
	}
}

// alibiSlopes returns the slopes of all heads.
func alibiSlopes(heads int) []float64 {
	slopes := make([]float64, heads)
	for h := range slopes {
		slopes[h] = engine.ALiBiSlope(h, heads)
	}
	return slopes
}
