package paths

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/internal/testkit/toyfigure"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// twoPaths are texts of n tokens that differ at some places alone.
func twoPaths(n int, at ...int) (a, b []int32) {
	a = toymodel.Text(1, n, toymodel.Vocab)
	b = slices.Clone(a)
	for _, i := range at {
		b[i] = (a[i] + 1) % toymodel.Vocab
	}
	return a, b
}

// TestPathsPartAtTheirFirstDifference: of every mixer the states are the same up to the token where the texts part, and
// differ behind it; predictions and their divergences are those of the model.
func TestPathsPartAtTheirFirstDifference(t *testing.T) {
	toymodel.EveryMixer(t, func(t *testing.T, m *model.Model) {
		g := explain.OfModel(m)
		a, b := twoPaths(24, 12, 17)
		r, err := Compare(context.Background(), g, a, b)
		if err != nil {
			t.Fatal(err)
		}
		if r.Common != 12 || r.At[0] != 5 || r.At[len(r.At)-1] != 24 {
			t.Fatalf("they part at %d, and are compared at %v", r.Common, r.At)
		}
		first, err := g.Predict(context.Background(), a, explain.Probe{})
		if err != nil {
			t.Fatal(err)
		}
		second, err := g.Predict(context.Background(), b, explain.Probe{})
		if err != nil {
			t.Fatal(err)
		}
		want := explain.JensenShannon(first.Last, second.Last, first.Softmax, second.Softmax)
		if got := r.JS[len(r.JS)-1]; math.Abs(got-want) > 1e-5 {
			t.Errorf("the divergence behind the paths is %g, want %g", got, want)
		}
		for i, at := range r.At {
			same, now := at <= r.Common, at == r.Common+1 // a filter has forgotten soon after
			if same && r.JS[i] != 0 || now && r.JS[i] == 0 {
				t.Errorf("after %d tokens the predictions have the divergence %g", at, r.JS[i])
			}
			for k, d := range r.Distance {
				stateless := len(r.Channels[k].Names) == 0
				if (same || stateless) && d[i] != 0 || now && !stateless && d[i] == 0 || d[i] > 2 {
					t.Errorf("after %d tokens layer %d has the distance %g", at, k, d[i])
				}
			}
		}
		if len(r.Blame) != 2 || r.Blame[0].Token != 12 || r.Blame[1].Token != 17 {
			t.Fatalf("found the blame %+v", r.Blame)
		}
	})
}

// TestPathsDistance: distances are those of the definition, from the states that the model has there.
func TestPathsDistance(t *testing.T) {
	m := toymodel.New(t, "h3,mamba", toymodel.Vocab)
	g := explain.OfModel(m)
	a, b := twoPaths(15, 9)
	r, err := Compare(context.Background(), g, a, b)
	if err != nil {
		t.Fatal(err)
	}
	var of [2]map[string][]float32
	for i, ids := range [][]int32{a, b} {
		s, err := g.StateAfter(context.Background(), ids[:12])
		if err != nil {
			t.Fatal(err)
		}
		of[i] = map[string][]float32{}
		s.Parts(func(p model.StatePart) { _, of[i][p.Name] = p.Values() })
	}
	norm := func(x ...[]float32) (sum float64) {
		for _, part := range x {
			for _, v := range part {
				sum += float64(v) * float64(v)
			}
		}
		return math.Sqrt(sum)
	}
	minus := func(x, y []float32) []float32 {
		d := make([]float32, len(x))
		for i := range x {
			d[i] = x[i] - y[i]
		}
		return d
	}
	place := slices.Index(r.At, 12)
	for k, names := range [][]string{{"layers.0.shift", "layers.0.diag"}, {"layers.1.conv", "layers.1.ssm"}} {
		x, y := names[0], names[1]
		want := 2 * norm(minus(of[0][x], of[1][x]), minus(of[0][y], of[1][y])) /
			(norm(of[0][x], of[0][y]) + norm(of[1][x], of[1][y]))
		if got := r.Distance[k][place]; math.Abs(got-want) > 1e-5 {
			t.Errorf("layer %d has the distance %g, want %g", k, got, want)
		}
	}
	// Channel 5 of Mamba's systems: 16 numbers in a row.
	x, y := of[0]["layers.1.ssm"][5*16:][:16], of[1]["layers.1.ssm"][5*16:][:16]
	row := slices.Index(r.Channels[1].Names, "ssm 5")
	if got, want := r.Channels[1].at(row, place), 2*norm(minus(x, y))/(norm(x)+norm(y)); math.Abs(got-want) > 1e-5 {
		t.Errorf("channel 5 has the distance %g, want %g", got, want)
	}
	// Channel 3 of its filter: a column.
	row = slices.Index(r.Channels[1].Names, "conv 3")
	var p, q []float32
	for i := range 3 {
		p, q = append(p, of[0]["layers.1.conv"][i*32+3]), append(q, of[1]["layers.1.conv"][i*32+3])
	}
	if got, want := r.Channels[1].at(row, place), 2*norm(minus(p, q))/(norm(p)+norm(q)); math.Abs(got-want) > 1e-5 {
		t.Errorf("channel 3 of the filter has the distance %g, want %g", got, want)
	}
}

// TestPathsExchange: in a model of one layer all that a text leaves is its state. So with the other's state the
// prediction is that of the other where both end in the same token.
func TestPathsExchange(t *testing.T) {
	for _, info := range model.Mixers() {
		if !info.Causal {
			continue
		}
		g := explain.OfModel(toymodel.New(t, info.Name, toymodel.Vocab))
		a, b := twoPaths(14, 6, 12)
		r, err := Compare(context.Background(), g, a, b)
		if err != nil {
			t.Fatal(err)
		}
		x := r.Exchange[0]
		if x.Skipped != "" || x.FromSecond > 1e-6 || !(x.FromFirst > 1e-7) {
			t.Errorf("%s: %s, KL %g from the first and %g from the second", info.Name, x.Skipped, x.FromFirst,
				x.FromSecond)
		}
		for i, z := range r.Next[1] {
			if math.Abs(float64(z-x.Scores[i])) > 1e-3 {
				t.Errorf("%s: token %d has the score %g, want %g", info.Name, i, x.Scores[i], z)
				break
			}
		}
	}
}

// TestPathsBlame: a token that is the only one that differs is no question; of two, making both equal leaves nothing,
// and each of them something.
func TestPathsBlame(t *testing.T) {
	g := explain.OfModel(toymodel.New(t, "s4d,attention", toymodel.Vocab))
	for _, at := range [][]int{{7}, {7, 9, 11}} {
		a, b := twoPaths(16, at...)
		r, err := Compare(context.Background(), g, a, b)
		if err != nil {
			t.Fatal(err)
		}
		if len(at) == 1 {
			if r.Blame != nil {
				t.Errorf("found %v for one token", r.Blame)
			}
			continue
		}
		for i, x := range r.Blame {
			rest := slices.Delete(slices.Clone(at), i, i+1)
			_, c := twoPaths(16, rest...)
			one, err := Compare(context.Background(), g, a, c)
			if err != nil {
				t.Fatal(err)
			}
			want := (one.Distance[0][len(one.At)-1] + one.Distance[1][len(one.At)-1]) / 2
			if math.Abs(x.Distance-want) > 1e-5 || math.Abs(x.JS-one.JS[len(one.JS)-1]) > 1e-5 {
				t.Errorf("without token %d: %+v, want a distance of %g", x.Token, x, want)
			}
		}
	}
}

// TestPathsOfOtherLengths: layers that hold each token are not exchanged, others are; long paths are compared at some
// places only; pages of all can be made.
func TestPathsOfOtherLengths(t *testing.T) {
	g := explain.OfModel(toymodel.New(t, "h3,attention,window-attention(window=4),mamba2", toymodel.Vocab))
	a, b := twoPaths(700, 30)
	r, err := Compare(context.Background(), g, a, b[:650])
	if err != nil {
		t.Fatal(err)
	}
	for k, skipped := range []bool{false, true, true, false} {
		if r.Exchange[k].Skipped != "" != skipped {
			t.Errorf("layer %d: skipped because %q", k, r.Exchange[k].Skipped)
		}
	}
	if len(r.At) > maxPlaces || r.At[len(r.At)-1] != 650 || !slices.Contains(r.At, 30) {
		t.Errorf("compared at %v", r.At)
	}
	toyfigure.Check(t, r.Figures(tokenizer.IDs(toymodel.Vocab)))
}

// TestPathsRefuse: paths that do not part, and models that look ahead.
func TestPathsRefuse(t *testing.T) {
	g := explain.OfModel(toymodel.New(t, "h3", toymodel.Vocab))
	_, err := Compare(context.Background(), g, []int32{1, 2}, []int32{1, 2, 3})
	toymodel.WantError(t, err, "the same first 2 tokens")
	_, err = Compare(context.Background(), g, []int32{1, 2}, nil)
	toymodel.WantError(t, err, "path 2: found an empty text")
	ahead, err := explain.OfNetwork(toymodel.Network(t, "attention(bidirectional=true)"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Compare(context.Background(), ahead, []int32{1, 2}, []int32{1, 3})
	toymodel.WantError(t, err, "looks ahead, which has no state")
	task, err := explain.OfNetwork(toymodel.Network(t, "h3,attention"))
	if err != nil {
		t.Fatal(err)
	}
	a, b := twoPaths(14, 6, 12)
	r, err := Compare(context.Background(), task, a, b)
	if err != nil {
		t.Fatal(err)
	}
	if d := r.Distance[1]; d[len(d)-1] == 0 {
		t.Error("the states of a task's network do not part")
	}
}
