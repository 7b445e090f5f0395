package explain

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tokenizer"
)

const toyVocab = 23

// everyMixer runs f for a model of each causal mixer, of each beside attention, and of a layer of two mixers.
func everyMixer(t *testing.T, f func(t *testing.T, m *model.Model)) {
	layers := []string{"h3+attention", "swiglu,attention", "mamba/none*2", "zamba2-shared(num_heads=2)>mamba2,mamba2"}
	for _, info := range model.Mixers() {
		if info.Causal {
			layers = append(layers, info.Name+"*2")
		}
	}
	for _, layer := range layers {
		t.Run(layer, func(t *testing.T) { f(t, toymodel.New(t, layer, toyVocab)) })
	}
}

// own are the model's own log-probabilities of ids after the first, by its loss of one target at a time.
func own(m *model.Model, ids []int32) []float64 {
	t := autograd.NewTape()
	hidden := m.Forward(t, ids[:len(ids)-1], model.EqualRows(1, len(ids)-1))
	z := m.Logits(t, hidden)
	vocab := z.Dim(-1)
	all, out := floats(z), make([]float64, len(ids)-1)
	for i := range out {
		row, sum := all[i*vocab:][:vocab], 0.0
		for _, v := range row {
			sum += math.Exp(float64(v))
		}
		out[i] = float64(row[ids[i+1]]) - math.Log(sum)
	}
	return out
}

// TestLensAfterTheLastLayerIsTheModel: the bottom row of the lens has the model's own log-probabilities, and no
// distance from its own prediction; the rows above are predictions, too.
func TestLensAfterTheLastLayerIsTheModel(t *testing.T) {
	everyMixer(t, func(t *testing.T, m *model.Model) {
		ids := toymodel.Text(1, 40, toyVocab)
		r, err := Lens(context.Background(), OfModel(m), ids)
		if err != nil {
			t.Fatal(err)
		}
		last := len(r.Depths) - 1
		if last != len(m.Blocks) {
			t.Fatalf("found %d depths, want %d", last+1, len(m.Blocks)+1)
		}
		for i, want := range own(m, ids) {
			if got := r.LogP[last][i]; math.Abs(got-want) > 1e-5 {
				t.Fatalf("token %d has log p %g, want %g", i+1, got, want)
			}
		}
		for k := range r.Depths {
			for i := range ids {
				top := r.Top[k][i]
				if len(top) != lensTop || top[0].P < top[1].P || top[0].P > 1 || k == last && r.KL[k][i] != 0 ||
					k < last && !(r.KL[k][i] > 0) || r.Entropy[k][i] < -1e-9 || r.Entropy[k][i] > math.Log(toyVocab)+1 {
					t.Fatalf("depth %d, token %d: %v, KL %g, entropy %g", k, i, top, r.KL[k][i], r.Entropy[k][i])
				}
			}
		}
	})
}

// TestLensOfTheEmbedding: the first row is the unembedding of the normed embedding.
func TestLensOfTheEmbedding(t *testing.T) {
	m := toymodel.New(t, "h3,attention", toyVocab)
	ids := toymodel.Text(1, 9, toyVocab)
	tape := autograd.NewTape()
	_, normed := m.LnF.AddForward(tape, m.Embed(tape, ids, model.EqualRows(1, len(ids))), nil)
	z, padded := floats(m.Logits(tape, normed)), m.Config.PaddedVocab()
	r, err := Lens(context.Background(), OfModel(m), ids)
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
	m := toymodel.New(t, "h3,attention", toyVocab)
	g, ids := OfModel(m), toymodel.Text(1, 9, toyVocab)
	r, err := Lens(context.Background(), g, ids, 5, 11)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range r.Watched {
		want := math.Exp(own(m, append(slices.Clone(ids), id))[len(ids)-1])
		if got := r.WatchedP[i][2]; math.Abs(got-want) > 1e-6 {
			t.Errorf("token %d has the probability %g, want %g", id, got, want)
		}
	}
	c := change(t, g, ids, Changes{Ablate: []Target{{}}, Watched: []int32{5, 5}})
	wantFigures(t, append(r.Figures(tokenizer.IDs(toyVocab)), c.Figures(tokenizer.IDs(toyVocab))...))
	_, err = Lens(context.Background(), g, ids, toyVocab)
	wantError(t, err, "watch: found token 23, want one from 0 to 22")
}

// TestLensReadsLongTextsInPieces: a text of several pieces gives the numbers of one reading, for a state is carried.
func TestLensReadsLongTextsInPieces(t *testing.T) {
	m := toymodel.New(t, "h3,mamba", toyVocab)
	ids := toymodel.Text(1, 2*pieceLen+17, toyVocab)
	r, err := Lens(context.Background(), OfModel(m), ids)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range own(m, ids) {
		if got := r.LogP[2][i]; math.Abs(got-want) > 1e-4 {
			t.Fatalf("token %d has log p %g, want %g", i+1, got, want)
		}
	}
}

// network is a network that scores tokens at each position.
func network(t *testing.T, layers string) *model.Network {
	t.Helper()
	c := model.NetworkConfig{Model: model.DefaultConfig(), Vocab: toyVocab, Outputs: toyVocab, Everywhere: true,
		Pool: "last"}
	c.Model.DModel, c.Model.Layers, c.Model.NumHeads, c.Model.DState, c.Model.DInner = 16, layers, 2, 8, 24
	n, err := model.NewNetwork(c)
	if err != nil {
		t.Fatal(err)
	}
	n.Init(1)
	return n
}

// TestLensOfNetworks: networks of tasks, also such as look ahead, end in what they predict.
func TestLensOfNetworks(t *testing.T) {
	for _, layers := range []string{"h3,attention", "attention(bidirectional=true),h3"} {
		n := network(t, layers)
		g, err := OfNetwork(n)
		if err != nil {
			t.Fatal(err)
		}
		ids := toymodel.Text(1, 30, toyVocab)
		r, err := Lens(context.Background(), g, ids)
		if err != nil {
			t.Fatal(err)
		}
		z := n.Predict(model.Input{Lengths: []int{len(ids)}, Tokens: ids})
		for i := range len(ids) - 1 {
			row := z[i*len(z)/len(ids):][:len(z)/len(ids)]
			of, _ := softmaxOf(row)
			if want := float64(row[ids[i+1]]) - of.norm; math.Abs(r.LogP[2][i]-want) > 1e-5 {
				t.Fatalf("%s: token %d has log p %g, want %g", layers, i, r.LogP[2][i], want)
			}
		}
	}
}

// TestSoftmax: norm, entropy and divergences are those of their definitions.
func TestSoftmax(t *testing.T) {
	a, b := []float32{1, 2, -3, 0.5}, []float32{0, 1, 1, -20}
	sa, _ := softmaxOf(a)
	sb, _ := softmaxOf(b)
	entropy, kl, js := definitions(probabilities(a), probabilities(b))
	for _, x := range []struct {
		name      string
		got, want float64
	}{{"entropy", sa.entropy, entropy}, {"KL", divergence(a, b, sa, sb), kl}, {"JS", apart(a, b, sa, sb), js},
		{"KL of the same", divergence(a, a, sa, sa), 0}} {
		if math.Abs(x.got-x.want) > 1e-6 {
			t.Errorf("%s is %g, want %g", x.name, x.got, x.want)
		}
	}
	top := likeliest([]float32{1, 3, 3, 2}, softmax{}, 3)
	if top[0].ID != 1 || top[1].ID != 2 || top[2].ID != 3 {
		t.Errorf("the likeliest are %v", top)
	}
}

// definitions are the entropy of p, its Kullback-Leibler divergence from q, and the Jensen-Shannon divergence of both.
func definitions(p, q []float64) (entropy, kl, js float64) {
	for i := range p {
		m := (p[i] + q[i]) / 2
		entropy -= p[i] * math.Log(p[i])
		kl += p[i] * math.Log(p[i]/q[i])
		js += p[i]*math.Log(p[i]/m)/2 + q[i]*math.Log(q[i]/m)/2
	}
	return entropy, kl, js
}

// TestSoftmaxOfManyScores: likewise of more scores than are looked at together, for like and unlike distributions.
func TestSoftmaxOfManyScores(t *testing.T) {
	a := normals(3, 2*scoresAtOnce+77)
	for i := range a {
		a[i] *= 3
	}
	for _, far := range []float32{1e-3, 0.1, 5} {
		b := slices.Clone(a)
		for i, v := range normals(4, len(a)) {
			b[i] += far * v
		}
		sa, _ := softmaxOf(a)
		sb, _ := softmaxOf(b)
		entropy, kl, js := definitions(probabilities(a), probabilities(b))
		for _, x := range []struct {
			name             string
			got, want, least float64
		}{{"entropy", sa.entropy, entropy, 1}, {"KL", divergence(a, b, sa, sb), kl, 1},
			{"JS", apart(a, b, sa, sb), js, 1e-8}} { // of which ratios are shown, however small it is
			if math.Abs(x.got-x.want) > 1e-4*max(x.want, x.least) {
				t.Errorf("%s of distributions %g apart is %g, want %g", x.name, far, x.got, x.want)
			}
		}
	}
}

func probabilities(z []float32) []float64 {
	sum, p := 0.0, make([]float64, len(z))
	for i, v := range z {
		p[i] = math.Exp(float64(v))
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// TestLensRefuses: texts that cannot be read, and weights that are ruined, are errors that say so.
func TestLensRefuses(t *testing.T) {
	m := toymodel.New(t, "h3,gmlp(l_max=16)", toyVocab)
	for _, x := range []struct {
		ids  []int32
		want string
	}{{nil, "found an empty text"}, {[]int32{1, toyVocab}, "found token 23 at place 1, want tokens from 0 to 22"},
		{make([]int32, 17), "found 17 tokens, but the model takes at most 16"}} {
		_, err := Lens(context.Background(), OfModel(m), x.ids)
		wantError(t, err, x.want)
	}
	ruin(m)
	_, err := Lens(context.Background(), OfModel(m), []int32{1, 2})
	wantError(t, err, "not finite", "weights are ruined")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Lens(ctx, OfModel(m), []int32{1, 2}); err != context.Canceled {
		t.Errorf("after the end of the context: %v", err)
	}
}

// ruin puts a NaN into the last layer.
func ruin(m *model.Model) {
	m.Params("", func(name string, p *nn.Param) {
		if strings.Contains(name, "layers.1.") && strings.HasSuffix(name, "fc2.bias") {
			x := floats(p.Tensor)
			x[0] = float32(math.NaN())
			p.CopyFrom(x)
		}
	})
}

// wantError checks that an error says something.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one of %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error is %q, want %q in it", err, part)
		}
	}
}
