package surprise

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/internal/testkit/toyfigure"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train/text"
)

func tokensOf(t *testing.T, ids []int32) *data.Tokens {
	t.Helper()
	tokens, err := data.FromIDs(ids, toymodel.Vocab)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// TestSurprisesSumToTheLossOfEval: in windows and in a stream, of every mixer.
func TestSurprisesSumToTheLossOfEval(t *testing.T) {
	toymodel.EveryMixer(t, func(t *testing.T, m *model.Model) {
		tokens := tokensOf(t, toymodel.Text(1, 150, toymodel.Vocab))
		for _, stream := range []bool{false, true} {
			if stream && m.MaxLength() > 0 {
				continue
			}
			want, err := text.Evaluate(context.Background(), m, tokens, text.EvalOptions{SeqLen: 40, BatchSize: 3,
				Stream: stream})
			if err != nil {
				t.Fatal(err)
			}
			o := DefaultOptions()
			o.SeqLen, o.Stream = 40, stream
			r, err := Measure(context.Background(), explain.OfModel(m), tokens, o)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Sum / float64(r.Tokens); r.Tokens != want.Tokens || math.Abs(got-want.Loss) > 1e-5 {
				t.Errorf("stream %v: %d tokens of the loss %g, want %d of %g", stream, r.Tokens, got, want.Tokens,
					want.Loss)
			}
		}
	})
}

// TestSurprisesOfDocuments: of several files each is read as a text of its own, whose first token is not predicted, as
// hippo eval does; no passage goes from one into the next.
func TestSurprisesOfDocuments(t *testing.T) {
	m := toymodel.New(t, "h3,mamba", 256)
	dir := t.TempDir()
	var files []string
	var starts []int
	at := 0
	for i, text := range []string{"Call me Ishmael.", "A", "Some years ago, never mind how long precisely"} {
		files, starts = append(files, filepath.Join(dir, strconv.Itoa(i)+".txt")), append(starts, at)
		if err := os.WriteFile(files[i], []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		at += len(text)
	}
	tokens, corpus, _, err := text.Tokenize(t.Context(), tokenizer.Bytes(), files, text.ReadOptions{Cache: "none"})
	if err != nil {
		t.Fatal(err)
	}
	defer corpus.Close()
	defer tokens.Close()
	for _, stream := range []bool{false, true} {
		want, err := text.Evaluate(t.Context(), m, tokens, text.EvalOptions{SeqLen: 10, BatchSize: 1, Stream: stream})
		if err != nil {
			t.Fatal(err)
		}
		o := Options{SeqLen: 10, Stream: stream, Bins: 5, Passage: 8, Worst: 20}
		r, err := Measure(t.Context(), explain.OfModel(m), tokens, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Sum / float64(r.Tokens); r.Tokens != want.Tokens || r.Bytes != want.Bytes ||
			math.Abs(got-want.Loss) > 1e-5 {
			t.Errorf("stream %v: %d tokens of %d bytes, of the loss %g, want %d of %d, %g", stream, r.Tokens, r.Bytes,
				got, want.Tokens, want.Bytes, want.Loss)
		}
		for i, x := range r.First {
			if slices.Contains(starts, i) != math.IsNaN(x.Nats) || x.ID != tokens.At(i) {
				t.Errorf("stream %v, token %d: found %+v, want %d", stream, i, x, tokens.At(i))
			}
		}
		for _, p := range r.Passages {
			for _, start := range starts[1:] {
				if p.Start <= start && start < p.Start+len(p.Tokens) {
					t.Errorf("stream %v: a passage from token %d on goes through %d, where a file begins", stream,
						p.Start, start)
				}
			}
		}
		for _, f := range r.Figures(tokenizer.Bytes()) {
			if err := (&figure.Page{Title: "x", Figures: []*figure.Figure{f}}).Check(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestSurpriseReport: what is counted on the way is what the log-probabilities of all tokens say, with the formula of
// the expected calibration error, and the worst passages are those that a search over all places finds.
func TestSurpriseReport(t *testing.T) {
	m := toymodel.New(t, "h3,attention", toymodel.Vocab)
	ids := toymodel.Text(3, 1400, toymodel.Vocab)
	o := Options{SeqLen: 2000, Bins: 7, Passage: 9, Worst: 3}
	r, err := Measure(context.Background(), explain.OfModel(m), tokensOf(t, ids), o)
	if err != nil {
		t.Fatal(err)
	}
	logP := toymodel.LogProbs(m, ids)
	n := len(logP)
	at := func(start int) (sum float64) { // of the passage from token start on
		for _, x := range logP[start-1:][:o.Passage] {
			sum -= x / float64(o.Passage)
		}
		return sum
	}
	worst := 1
	for start := 1; start+o.Passage <= len(ids); start++ {
		if at(start) > at(worst) {
			worst = start
		}
	}
	if r.Passages[0].Start != worst || math.Abs(r.Passages[0].Mean-at(worst)) > 1e-4 {
		t.Errorf("the worst passage is at %d with %g, want %d with %g", r.Passages[0].Start, r.Passages[0].Mean, worst,
			at(worst))
	}
	for i, p := range r.Passages {
		for j, x := range p.Tokens {
			if x.ID != ids[p.Start+j] || math.Abs(x.Nats+logP[p.Start+j-1]) > 1e-4 {
				t.Fatalf("passage %d, token %d: %+v", i, j, x)
			}
		}
		if got := slices.Concat(p.Before, ids[p.Start:p.Start+o.Passage], p.After); !slices.Equal(got,
			ids[p.Start-len(p.Before):p.Start+o.Passage+len(p.After)]) || len(p.Before) > passageContext {
			t.Errorf("passage %d has another text around it", i)
		}
		for _, q := range r.Passages[:i] {
			if d := p.Start - q.Start; d > -o.Passage && d < o.Passage || q.Mean < p.Mean {
				t.Errorf("passages at %d and %d, with %g and %g", q.Start, p.Start, q.Mean, p.Mean)
			}
		}
	}
	ece, right, count := 0.0, 0, 0
	for i, b := range r.Bins {
		count += b.Count
		right += int(math.Round(b.Accuracy * float64(b.Count)))
		ece += float64(b.Count) / float64(n) * math.Abs(b.Accuracy-b.Confidence)
		low, high := float64(i)/7, float64(i+1)/7
		if b.Count > 0 && (b.Confidence < low || b.Confidence > high) {
			t.Errorf("bin %d has the confidence %g", i, b.Confidence)
		}
	}
	if count != n || right != r.Right || math.Abs(ece-r.ECE) > 1e-12 {
		t.Errorf("%d tokens, %d right, ECE %g; want %d, %d, %g", count, right, ece, n, r.Right, r.ECE)
	}
	sum, all, costly := 0.0, 0, 0.0
	for i, p := range r.Curve {
		part := min(r.CurveStep, n-i*r.CurveStep)
		sum, all = sum+p.Mean*float64(part), all+part
	}
	for _, c := range r.Costly {
		costly += c.Sum
	}
	if all != n || math.Abs(sum-r.Sum) > 1e-6 || len(r.Curve) > curvePlaces || len(r.Costly) != costlyKept ||
		!(costly < r.Sum) || len(r.First) != firstKept || r.First[0].ID != ids[0] {
		t.Errorf("the curve has %d tokens of the sum %g, want %d of %g; %d costly of %g, first %v", all, sum, n, r.Sum,
			len(r.Costly), costly, r.First[0])
	}
	toyfigure.Check(t, r.Figures(tokenizer.IDs(toymodel.Vocab)))
}

// TestPerfectCalibration: a model that predicts nothing, all tokens alike, of a text of all tokens alike knows what it
// does not know.
func TestPerfectCalibration(t *testing.T) {
	m := toymodel.New(t, "h3", toymodel.Vocab)
	x := make([]float32, m.Embedding.Weight.Len())
	m.Embedding.Weight.CopyFrom(x)
	ids := make([]int32, 1+50*toymodel.Vocab)
	for i := range ids {
		ids[i] = int32(i % toymodel.Vocab)
	}
	r, err := Measure(context.Background(), explain.OfModel(m), tokensOf(t, ids), DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	padded := float64(m.Config.PaddedVocab())
	if want := math.Log(padded); math.Abs(r.Sum/float64(r.Tokens)-want) > 1e-6 ||
		math.Abs(r.Entropy/float64(r.Tokens)-want) > 1e-6 {
		t.Errorf("loss and entropy %g, %g, want %g", r.Sum/float64(r.Tokens), r.Entropy/float64(r.Tokens), want)
	}
	if want := math.Abs(1./toymodel.Vocab - 1/padded); math.Abs(r.ECE-want) > 1e-3 {
		t.Errorf("ECE %g, want %g", r.ECE, want)
	}
}

// TestSurpriseRefuses: options and models that cannot be.
func TestSurpriseRefuses(t *testing.T) {
	short, good := toymodel.New(t, "gmlp(l_max=16)", toymodel.Vocab), DefaultOptions()
	task, err := explain.OfNetwork(toymodel.Network(t, "h3"))
	if err != nil {
		t.Fatal(err)
	}
	ids := []int32{1, 2, 3}
	for want, try := range map[string]func(o *Options) (*explain.Language, []int32){
		"takes at most 16 tokens": func(*Options) (*explain.Language, []int32) {
			return explain.OfModel(short),
				ids
		},
		"the model takes at most": func(o *Options) (*explain.Language, []int32) {
			o.Stream = true
			return explain.OfModel(short), ids
		},
		"network of a task": func(*Options) (*explain.Language, []int32) { return task, ids },
		"bins: found 0": func(o *Options) (*explain.Language,
			[]int32) {
			o.Bins = 0
			return explain.OfModel(short), ids
		},
		"passage: found -1": func(o *Options) (*explain.Language, []int32) {
			o.Passage = -1
			return explain.OfModel(short), ids
		},
		"worst: found 9999": func(o *Options) (*explain.Language, []int32) {
			o.Worst = 9999
			return explain.OfModel(short), ids
		},
		"1 token": func(o *Options) (*explain.Language, []int32) {
			o.SeqLen = 16
			return explain.OfModel(short), ids[:1]
		},
	} {
		o := good
		g, text := try(&o)
		_, err := Measure(context.Background(), g, tokensOf(t, text), o)
		toymodel.WantError(t, err, want)
	}
	m := toymodel.New(t, "h3*2", toymodel.Vocab)
	toymodel.Ruin(m)
	_, err = Measure(context.Background(), explain.OfModel(m), tokensOf(t, ids), good)
	toymodel.WantError(t, err, "not finite at token 0")
}
