package explain

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// twoPaths are texts of n tokens that differ at some places alone.
func twoPaths(n int, at ...int) (a, b []int32) {
	a = toymodel.Text(1, n, toyVocab)
	b = slices.Clone(a)
	for _, i := range at {
		b[i] = (a[i] + 1) % toyVocab
	}
	return a, b
}

// TestPathsPartAtTheirFirstDifference: of every mixer the states are the same up to the token where the texts part, and
// differ behind it; predictions and their divergences are those of the model.
func TestPathsPartAtTheirFirstDifference(t *testing.T) {
	everyMixer(t, func(t *testing.T, m *model.Model) {
		g := OfModel(m)
		a, b := twoPaths(24, 12, 17)
		r, err := Paths(context.Background(), g, a, b)
		if err != nil {
			t.Fatal(err)
		}
		if r.Common != 12 || r.At[0] != 5 || r.At[len(r.At)-1] != 24 {
			t.Fatalf("they part at %d, and are compared at %v", r.Common, r.At)
		}
		first, err := g.predict(context.Background(), a, watch{})
		if err != nil {
			t.Fatal(err)
		}
		second, err := g.predict(context.Background(), b, watch{})
		if err != nil {
			t.Fatal(err)
		}
		want := apart(first.last, second.last, first.of, second.of)
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
	m := toymodel.New(t, "h3,mamba", toyVocab)
	g := OfModel(m)
	a, b := twoPaths(15, 9)
	r, err := Paths(context.Background(), g, a, b)
	if err != nil {
		t.Fatal(err)
	}
	var of [2]map[string][]float32
	for i, ids := range [][]int32{a, b} {
		s, err := g.stateAfter(context.Background(), ids[:12])
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
		g := OfModel(toymodel.New(t, info.Name, toyVocab))
		a, b := twoPaths(14, 6, 12)
		r, err := Paths(context.Background(), g, a, b)
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
	g := OfModel(toymodel.New(t, "s4d,attention", toyVocab))
	for _, at := range [][]int{{7}, {7, 9, 11}} {
		a, b := twoPaths(16, at...)
		r, err := Paths(context.Background(), g, a, b)
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
			one, err := Paths(context.Background(), g, a, c)
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
	g := OfModel(toymodel.New(t, "h3,attention,window-attention(window=4),mamba2", toyVocab))
	a, b := twoPaths(700, 30)
	r, err := Paths(context.Background(), g, a, b[:650])
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
	wantFigures(t, r.Figures(tokenizer.IDs(toyVocab)))
}

// TestPathsRefuse: paths that do not part, and models that look ahead.
func TestPathsRefuse(t *testing.T) {
	g := OfModel(toymodel.New(t, "h3", toyVocab))
	_, err := Paths(context.Background(), g, []int32{1, 2}, []int32{1, 2, 3})
	wantError(t, err, "the same first 2 tokens")
	_, err = Paths(context.Background(), g, []int32{1, 2}, nil)
	wantError(t, err, "path 2: found an empty text")
	ahead, err := OfNetwork(network(t, "attention(bidirectional=true)"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Paths(context.Background(), ahead, []int32{1, 2}, []int32{1, 3})
	wantError(t, err, "looks ahead, which carries no state")
	task, err := OfNetwork(network(t, "h3,attention"))
	if err != nil {
		t.Fatal(err)
	}
	a, b := twoPaths(14, 6, 12)
	r, err := Paths(context.Background(), task, a, b)
	if err != nil {
		t.Fatal(err)
	}
	if d := r.Distance[1]; d[len(d)-1] == 0 {
		t.Error("the states of a task's network do not part")
	}
}

// wantFigures checks what every page must have: names once, panels of one kind, sizes that fit.
func wantFigures(t *testing.T, figures []*figure.Figure) {
	t.Helper()
	seen := map[string]bool{}
	for _, f := range figures {
		if f.Name == "" || f.Title == "" || seen[f.Name] || len(f.Frames) != 1 || len(f.Frames[0].Panels) == 0 {
			t.Fatalf("figure %q (%q), %d frames", f.Name, f.Title, len(f.Frames))
		}
		seen[f.Name] = true
		for _, p := range f.Frames[0].Panels {
			kinds := 0
			if m := p.Map; m != nil {
				kinds++
				if m.Rows > maxCells || m.Cols > maxCells || len(m.Values) != m.Rows*m.Cols ||
					len(m.RowNames) != m.Rows || len(m.ColNames) != m.Cols ||
					m.Notes != nil && len(m.Notes) != len(m.Values) {
					t.Errorf("%s: map %d×%d of %d values, %d and %d names, %d notes", f.Name, m.Rows, m.Cols,
						len(m.Values), len(m.RowNames), len(m.ColNames), len(m.Notes))
				}
			}
			if l := p.Lines; l != nil {
				kinds++
				for _, s := range l.Series {
					if len(s.X) != len(s.Y) || s.Labels != nil && len(s.Labels) != len(s.X) || len(s.X) == 0 {
						t.Errorf("%s: series %q of %d, %d points, %d labels", f.Name, s.Name, len(s.X), len(s.Y),
							len(s.Labels))
					}
				}
			}
			if b := p.Bars; b != nil {
				kinds++
				for _, s := range b.Series {
					if len(s.Y) != len(b.Names) || len(s.Y) == 0 {
						t.Errorf("%s: %d bars of %d names", f.Name, len(s.Y), len(b.Names))
					}
				}
			}
			if x := p.Text; x != nil {
				kinds++
				if len(x.Tokens) != len(x.Values) || x.Notes != nil && len(x.Notes) != len(x.Tokens) {
					t.Errorf("%s: %d tokens, %d values, %d notes", f.Name, len(x.Tokens), len(x.Values), len(x.Notes))
				}
			}
			if x := p.Table; x != nil {
				kinds++
				for _, row := range x.Rows {
					if len(row) != len(x.Columns) {
						t.Errorf("%s: a row %q of %d columns", f.Name, row, len(x.Columns))
					}
				}
			}
			if kinds != 1 {
				t.Errorf("%s: a panel of %d kinds", f.Name, kinds)
			}
		}
	}
}
