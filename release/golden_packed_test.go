package release

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// Tolerances of logits with rounded weights: the root mean square error relative to that of the logits, and the largest
// error relative to the largest logit. bf16 rounds each factor of a product by 2^-9/√3 = 0.11 %. About 13 consecutive
// products therefore give 0.6 %, which random weights amplify up to twice.
const bf16LogitRMS, bf16LogitWorst = 0.015, 0.03

// For integers, no tolerance fits every model, because models with random weights amplify errors, and single positions
// far more than others. At one of the 40 positions of 05_h3_lm_rotary_a the int8 logits have an error of 14 %, at the
// others 1 to 7 %. Rounding each matrix separately shows the reason: rounding only the first layer's v_proj gives 7 %
// at that position and below 2 % elsewhere. H3 multiplies its values by two other projections of the same small
// embeddings. Where that product nearly vanishes, the norm after it amplifies the rest.
//
// Weights and inputs are therefore tested separately. Rounded weights are tested by their own numbers (checkRounded).
// Products of packed weights also round their inputs to int8. This is compared, position by position, with the float32
// model with the rounded weights. The tolerance is the change of the logits when noise as large as the rounding of int8
// is added to these weights (sensitivity). Inputs and weights are factors of the same products, so both have about the
// same effect.
const (
	inputRMS   = 1.5 // for all logits, relative to the noise: 0.7 to 1.1 here
	inputWorst = 4   // for the logits of a position: up to 2.4 in one of 600
)

// TestPackedGolden checks the official model's logits, from its checkpoint rounded during loading.
func TestPackedGolden(t *testing.T) {
	golden.Run(t, "05_h3_lm", func(t *testing.T, c golden.Case) {
		s := c.Shape("in/ids")
		ids, official := ids32(c.I64("in/ids")), c.F64("out/logits")
		logits := func(m *model.Model) []float32 {
			tape := autograd.NewTape(cpu.Backend{})
			return read(m.Logits(tape, m.Forward(tape, ids, model.EqualRows(s[0], s[1]))))
		}
		check := func(what string, got []float32, rms, worst float64) {
			t.Helper()
			golden.Close(t, what+": logits", got, official, worst)
			if off := distance(got, official); !(off <= rms) {
				t.Errorf("%s: logits are off by %.3g in the mean square, want at most %.3g", what, off, rms)
			}
		}
		for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8, engine.Int4, engine.Int4Min} {
			m, rounded := goldenModel(t, c, c.Weights()[0]), goldenModel(t, c, c.Weights()[0])
			if err := m.Pack(p); err != nil {
				t.Fatal(err)
			}
			got := logits(m)
			switch p {
			case engine.Float32:
				check(p.String(), got, 1e-5, 1e-4)
				continue
			case engine.BF16:
				// The largest error of the 62,400 logits of 05_h3_lm_long_a is 0.018. It is the extreme of many errors,
				// since their mean square is the same as elsewhere: 5,000 logits stay below 0.012.
				check(p.String(), got, bf16LogitRMS, bf16LogitWorst)
				continue
			}
			if checkRounded(t, m, rounded) < 10 {
				t.Errorf("%s: too few matrices are rounded", p)
			}
			want := wide(logits(rounded))
			v := m.Config.PaddedVocab()
			noise := sensitivity(rounded, logits, want, v)
			var off, allowed float64
			for i, n := range noise {
				e := distance(got[i*v:][:v], want[i*v:][:v])
				off, allowed = off+e*e, allowed+n*n
				if !(e <= inputWorst*n) {
					t.Errorf("%s: logits at position %d are off by %.3g, noise by %.3g, want at most %g times that",
						p, i, e, n, float64(inputWorst))
				}
			}
			if off, allowed := math.Sqrt(off), math.Sqrt(allowed); !(off <= inputRMS*allowed) {
				t.Errorf("%s: logits are off by %.3g, noise by %.3g, want at most %g times that", p, off, allowed,
					inputRMS)
			}
		}
	})
}

func wide(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// distance returns the root mean square of got - want relative to that of want.
func distance(got []float32, want []float64) float64 {
	var errors, all float64
	for i, w := range want {
		errors, all = errors+(float64(got[i])-w)*(float64(got[i])-w), all+w*w
	}
	return math.Sqrt(errors / all)
}

// sensitivity returns the relative change of the logits at each position if every number of the matrices of m is
// changed at random by up to 1/254 of the largest of its group. It changes m.
func sensitivity(m *model.Model, logits func(*model.Model) []float32, want []float64, v int) []float64 {
	const draws = 6
	rng := rand.New(rand.NewPCG(1, 2))
	was := map[*nn.Param][]float32{}
	m.Params("", func(_ string, p *nn.Param) {
		if p.Role == nn.Weight || p.Role == nn.Table {
			was[p] = slices.Clone(p.Elements())
		}
	})
	squares := make([]float64, len(want)/v)
	for range draws {
		m.Params("", func(_ string, p *nn.Param) {
			if was[p] == nil {
				return
			}
			k := p.Dim(1)
			for lo := 0; lo < p.Len(); lo += min(engine.GroupTerms, k-lo%k) {
				group := was[p][lo:][:min(engine.GroupTerms, k-lo%k)]
				top := max(-slices.Min(group), slices.Max(group))
				for i, w := range group {
					p.Elements()[lo+i] = w + top*float32(2*rng.Float64()-1)/254
				}
			}
			p.Changed()
		})
		got := logits(m)
		for i := range squares {
			d := distance(got[i*v:][:v], want[i*v:][:v])
			squares[i] += d * d / draws
		}
	}
	for i, s := range squares {
		squares[i] = math.Sqrt(s)
	}
	return squares
}

// checkRounded compares the integers of a packed model with the weights of plain, group by group, and then replaces
// those weights by the rounded ones. It returns the number of matrices.
//
// Each group of 32 is rounded by its own factor f. With f = top/127, where top is the largest magnitude of the group,
// the error of an int8 number is at most top/254. int4 chooses f by least squares among several values, one of which is
// top/7. int4min chooses f and the minimum in the same way; the candidates include those that divide the range into 15
// steps. So the sum of the squared errors of a group is at most that with these factors. The errors of a least-squares
// fit are orthogonal to the fitted values: <w, r> = <r, r> for weights w rounded to r. Rounding again with the fitted
// f, and rounding f itself to float16, disturbs single groups, by less than a percent on average. If f is too large by
// a factor c, then <w, r>/<r, r> is 1/c.
func checkRounded(t *testing.T, m, plain *model.Model) (matrices int) {
	t.Helper()
	params := map[string]*nn.Param{}
	plain.Params("", func(name string, p *nn.Param) { params[name] = p })
	m.Params("", func(name string, p *nn.Param) {
		packed, ok := p.Packed().(engine.Rounding)
		if !ok {
			return
		}
		matrices++
		w, k := params[name].Elements(), p.Dim(1)
		row := make([]float32, k)
		var both, square float64
		for j := range p.Dim(0) {
			packed.ReadRow(row, j)
			for lo := 0; lo < k; lo += engine.GroupTerms {
				hi := min(k, lo+engine.GroupTerms)
				was, is := w[j*k+lo:j*k+hi], row[lo:hi]
				low, high := float64(slices.Min(was)), float64(slices.Max(was))
				top := max(-low, high)
				var errors, allowed float64
				for i, v := range was {
					v, r := float64(v), float64(is[i])
					both, square, errors = both+v*r, square+r*r, errors+(v-r)*(v-r)
					e := 0.0
					switch packed.Stored() {
					case engine.Int8:
						e = top / 254
					case engine.Int4:
						e = v - math.Round(v*7/top)*top/7
					case engine.Int4Min:
						step := (high - low) / 15
						e = v - low - math.Round((v-low)/step)*step
					}
					allowed += e * e
				}
				if top > 0 && !(errors <= 1.05*allowed) { // factors are float16
					t.Errorf("%s: row %d, group at %d: squares of errors %.4g, want at most %.4g", name, j, lo, errors,
						allowed)
					return
				}
			}
			copy(w[j*k:], row)
		}
		params[name].Changed()
		if fit := both / square; !(math.Abs(fit-1) < 0.01) {
			t.Errorf("%s: the weights are %.4g times what %s rounds them to, want once", name, fit, packed.Stored())
		}
	})
	return matrices
}
