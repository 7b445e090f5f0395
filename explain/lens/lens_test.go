package lens

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/internal/testkit/toyfigure"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestLensAfterTheLastLayerIsTheModel: the bottom row of the lens has the model's own log-probabilities, and no
// distance from its own prediction; the rows above are predictions, too.
func TestLensAfterTheLastLayerIsTheModel(t *testing.T) {
	toymodel.EveryMixer(t, func(t *testing.T, m *model.Model) {
		ids := toymodel.Text(1, 40, toymodel.Vocab)
		r, err := Of(context.Background(), explain.OfModel(m), ids)
		if err != nil {
			t.Fatal(err)
		}
		last := len(r.Depths) - 1
		if last != len(m.Blocks) {
			t.Fatalf("found %d depths, want %d", last+1, len(m.Blocks)+1)
		}
		for i, want := range toymodel.LogProbs(m, ids) {
			if got := r.LogP[last][i]; math.Abs(got-want) > 1e-5 {
				t.Fatalf("token %d has log p %g, want %g", i+1, got, want)
			}
		}
		for k := range r.Depths {
			for i := range ids {
				top := r.Top[k][i]
				if len(top) != lensTop || top[0].P < top[1].P || top[0].P > 1 || k == last && r.KL[k][i] != 0 ||
					k < last && !(r.KL[k][i] > 0) || r.Entropy[k][i] < -1e-9 ||
					r.Entropy[k][i] > math.Log(toymodel.Vocab)+1 {
					t.Fatalf("depth %d, token %d: %v, KL %g, entropy %g", k, i, top, r.KL[k][i], r.Entropy[k][i])
				}
			}
		}
	})
}

// TestLensOfTheEmbedding: the first row is the unembedding of the normed embedding.
func TestLensOfTheEmbedding(t *testing.T) {
	m := toymodel.New(t, "h3,attention", toymodel.Vocab)
	ids := toymodel.Text(1, 9, toymodel.Vocab)
	tape := autograd.NewTape(cpu.Backend{})
	_, normed := m.LnF.AddForward(tape, m.Embed(tape, ids, model.EqualRows(1, len(ids))), nil)
	z, padded := m.Logits(tape, normed).Floats(), m.Config.PaddedVocab()
	r, err := Of(context.Background(), explain.OfModel(m), ids)
	if err != nil {
		t.Fatal(err)
	}
	for i, top := range r.Top[0] {
		row := z[i*padded:][:padded]
		if best := slices.Max(row); row[top[0].ID] != best {
			t.Errorf("token %d: the likeliest after the embedding is %d, with %g of at most %g", i, top[0].ID,
				row[top[0].ID], best)
		}
	}
}

// TestWatchedTokens: their probabilities after the text are those of the model, and changes show them.
func TestWatchedTokens(t *testing.T) {
	m := toymodel.New(t, "h3,attention", toymodel.Vocab)
	g, ids := explain.OfModel(m), toymodel.Text(1, 9, toymodel.Vocab)
	r, err := Of(context.Background(), g, ids, 5, 11)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range r.Watched {
		want := math.Exp(toymodel.LogProbs(m, append(slices.Clone(ids), id))[len(ids)-1])
		if got := r.WatchedP[i][2]; math.Abs(got-want) > 1e-6 {
			t.Errorf("token %d has the probability %g, want %g", id, got, want)
		}
	}
	c := change(t, g, ids, Changes{Ablate: []explain.Target{{}}, Watched: []int32{5, 5}})
	toyfigure.Check(t, append(r.Figures(tokenizer.IDs(toymodel.Vocab)), c.Figures(tokenizer.IDs(toymodel.Vocab))...))
	_, err = Of(context.Background(), g, ids, toymodel.Vocab)
	toymodel.WantError(t, err, "watch: found token 23, want one from 0 to 22")
}

// TestLensReadsLongTextsInPieces: a text of several pieces gives the numbers of one reading, for a state is carried.
func TestLensReadsLongTextsInPieces(t *testing.T) {
	m := toymodel.New(t, "h3,mamba", toymodel.Vocab)
	ids := toymodel.Text(1, 2*explain.PieceLen+17, toymodel.Vocab)
	r, err := Of(context.Background(), explain.OfModel(m), ids)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range toymodel.LogProbs(m, ids) {
		if got := r.LogP[2][i]; math.Abs(got-want) > 1e-4 {
			t.Fatalf("token %d has log p %g, want %g", i+1, got, want)
		}
	}
}

// TestLensOfNetworks: networks of tasks, also such as look ahead, end in what they predict.
func TestLensOfNetworks(t *testing.T) {
	for _, layers := range []string{"h3,attention", "attention(bidirectional=true),h3"} {
		n := toymodel.Network(t, layers)
		g, err := explain.OfNetwork(n)
		if err != nil {
			t.Fatal(err)
		}
		ids := toymodel.Text(1, 30, toymodel.Vocab)
		r, err := Of(context.Background(), g, ids)
		if err != nil {
			t.Fatal(err)
		}
		z := n.Predict(model.Input{Lengths: []int{len(ids)}, Tokens: ids})
		for i := range len(ids) - 1 {
			row := z[i*len(z)/len(ids):][:len(z)/len(ids)]
			of, _ := explain.SoftmaxOf(row)
			if want := float64(row[ids[i+1]]) - of.Norm; math.Abs(r.LogP[2][i]-want) > 1e-5 {
				t.Fatalf("%s: token %d has log p %g, want %g", layers, i, r.LogP[2][i], want)
			}
		}
	}
}

// TestLensRefuses: texts that cannot be read, and weights that are ruined, are errors that say so.
func TestLensRefuses(t *testing.T) {
	m := toymodel.New(t, "h3,gmlp(l_max=16)", toymodel.Vocab)
	for _, x := range []struct {
		ids  []int32
		want string
	}{{nil, "found an empty text"}, {[]int32{1, toymodel.Vocab}, "found token 23 at place 1, want tokens from 0 to 22"},
		{make([]int32, 17), "found 17 tokens, but the model takes at most 16"}} {
		_, err := Of(context.Background(), explain.OfModel(m), x.ids)
		toymodel.WantError(t, err, x.want)
	}
	toymodel.Ruin(m)
	_, err := Of(context.Background(), explain.OfModel(m), []int32{1, 2})
	toymodel.WantError(t, err, "not finite", "weights are invalid")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Of(ctx, explain.OfModel(m), []int32{1, 2}); err != context.Canceled {
		t.Errorf("after the end of the context: %v", err)
	}
}
