package quantize

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// driftText is the number of tokens of a text with two parts.
const driftText = 1201

// drifted returns a model with a recurrence and attention, the same model with int4 weights, and a text.
func drifted(t *testing.T) (m, rounded *model.Model, ids []int32) {
	t.Helper()
	const layers = "gated-deltanet,attention"
	m, some := stored(t, layers, true)
	packed := func(m *model.Model, w model.Weights) error { return m.LoadPacked(w, engine.Int4) }
	rounded, _ = loadedBy(packed, t, layers, true)
	for i := range driftText {
		ids = append(ids, some[i*i%len(some)])
	}
	return m, rounded, ids
}

// TestDriftIsThatOfWholePasses checks that all results equal those by definition, from one pass over the whole text,
// for pieces of any length, and that a model has no distance from itself.
func TestDriftIsThatOfWholePasses(t *testing.T) {
	m, rounded, ids := drifted(t)
	n := len(ids) - 1
	var logits [2][]float32
	var states [2]map[string][]float32
	for i, net := range []*model.Model{m, rounded} {
		state, tape := net.NewState(), net.NewTape()
		logits[i] = net.Logits(tape, net.Forward(tape, ids[:n], model.OneRow(n, state))).Floats()
		states[i] = map[string][]float32{}
		state.Tensors(func(name string, x *tensor.Tensor) { states[i][name] = x.Floats() })
	}
	vocab, padded := m.Config.VocabSize, m.Config.PaddedVocab()
	for _, piece := range []int{7, 500} {
		parts, err := MeasureDrift(t.Context(), m, []*model.Model{m, rounded}, ids, DriftOptions{Piece: piece})
		if err != nil {
			t.Fatal(err)
		}
		if len(parts) != 2 || parts[0].To != 1000 || parts[1].From != 1000 || parts[1].To != n {
			t.Fatalf("found the parts %+v, want those up to 1000 and %d", parts, n)
		}
		for _, part := range parts {
			if same := part.Others[0]; same != (Drift{}) {
				t.Errorf("found %+v of a model and itself, want zeros", same)
			}
			var want Drift
			var loss, off, spread float64
			for at := part.From; at < part.To; at++ {
				p, q := logits[0][at*padded:][:vocab], logits[1][at*padded:][:vocab]
				a, b := logSoftmax(widened(p)), logSoftmax(widened(q))
				for i := range a {
					want.KL += math.Exp(a[i]) * (a[i] - b[i])
					off += math.Pow(centred(q)[i]-centred(p)[i], 2)
					spread += math.Pow(centred(p)[i], 2)
				}
				next := ids[at+1]
				loss, want.More = loss-a[next], want.More+a[next]-b[next]
			}
			count := float64(part.To - part.From)
			got := part.Others[1]
			for what, x := range map[string][2]float64{
				"loss": {part.Loss, loss / count}, "divergence": {got.KL, want.KL / count},
				"more loss": {got.More, want.More / count}, "logits": {got.Logits, math.Sqrt(off / spread)},
			} {
				// More is a difference. Pieces of another length round some activations to another integer.
				if math.Abs(x[0]-x[1]) > 1e-3*math.Abs(x[1])+3e-5*part.Loss {
					t.Errorf("pieces of %d, to %d: %s is %g, want %g", piece, part.To, what, x[0], x[1])
				}
			}
		}
		const name = "layers.0.ssm" // the only tensor of a recurrence
		off, size := 0.0, 0.0
		for i, x := range states[0][name] {
			off += math.Pow(float64(states[1][name][i]-x), 2)
			size += math.Pow(float64(x), 2)
		}
		last, want := parts[1].Others[1], math.Sqrt(off/size)
		if math.Abs(last.State-want) > 1e-3*want || last.Worst != last.State || last.Where != name {
			t.Errorf("pieces of %d: the state is off by %g in %s, want %g in %s", piece, last.State, last.Where, want,
				name)
		}
	}
}

// centred returns x minus its mean.
func centred(x []float32) []float64 {
	out, mean := widened(x), 0.0
	for _, v := range out {
		mean += v / float64(len(x))
	}
	for i := range out {
		out[i] -= mean
	}
	return out
}

func widened(x []float32) (out []float64) {
	for _, v := range x {
		out = append(out, float64(v))
	}
	return out
}

// TestDriftParts checks that parts end at 1, 3, 10, 30 thousand positions and so on.
func TestDriftParts(t *testing.T) {
	var got []int
	for i := range 6 {
		got = append(got, driftMark(i))
	}
	if want := []int{1000, 3000, 10_000, 30_000, 100_000, 300_000}; !slices.Equal(got, want) {
		t.Errorf("found the ends %v, want %v", got, want)
	}
}

// TestDriftOfOthers checks that models of other shapes cannot be compared.
func TestDriftOfOthers(t *testing.T) {
	m, _, ids := drifted(t)
	other, _ := stored(t, "mamba,attention", true)
	_, err := MeasureDrift(t.Context(), m, []*model.Model{other}, ids, DriftOptions{Piece: 500})
	if err == nil || !strings.Contains(err.Error(), "found states of other layers") {
		t.Errorf("found the error %v, want one of the layers", err)
	}
}
