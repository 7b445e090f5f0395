package text

import (
	"math"
	"testing"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestLossesByPosition checks that losses by position are the means of the model's log-probabilities at these positions
// in all windows, including a shorter last one, and that together they give the total loss.
func TestLossesByPosition(t *testing.T) {
	m := toymodel.New(t, "h3,mamba", 256)
	ids := make([]int32, 231) // 230 pairs: two windows at a time, one alone, one of 30
	for i := range ids {
		ids[i] = int32(i * i % 251)
	}
	tokens, err := data.FromIDs(ids, 256)
	if err != nil {
		t.Fatal(err)
	}
	o := EvalOptions{SeqLen: 40, BatchSize: 2}
	whole, err := Evaluate(t.Context(), m, tokens, o)
	if err != nil || whole.ByPosition != nil {
		t.Fatalf("found %v by position, %v, want none where none are asked for", whole.ByPosition, err)
	}
	o.Positions = 8
	got, err := Evaluate(t.Context(), m, tokens, o)
	if err != nil || math.Abs(got.Loss-whole.Loss) > 1e-6 {
		t.Fatalf("loss %v, %v, without positions %v", got.Loss, err, whole.Loss)
	}
	want := []PositionLoss{{From: 1, To: 8}, {From: 9, To: 16}, {From: 17, To: 32}, {From: 33, To: 40}}
	for start := 0; start < len(ids)-1; start += o.SeqLen {
		for i, p := range toymodel.LogProbs(m, ids[start:min(start+o.SeqLen+1, len(ids))]) {
			k := 0
			for want[k].To <= i {
				k++
			}
			want[k].Tokens, want[k].Loss = want[k].Tokens+1, want[k].Loss-p
		}
	}
	if len(got.ByPosition) != len(want) {
		t.Fatalf("found %+v, want %+v", got.ByPosition, want)
	}
	for k, w := range want {
		w.Loss /= float64(w.Tokens)
		g := got.ByPosition[k]
		if g.From != w.From || g.To != w.To || g.Tokens != w.Tokens || math.Abs(g.Loss-w.Loss) > 1e-5 ||
			math.Abs(g.Perplexity-math.Exp(w.Loss)) > 1e-3*g.Perplexity {
			t.Errorf("found %+v, want %+v", g, w)
		}
	}
	e, _ := measured(ModelEvalOptions{Stream: true, Positions: 8, Data: []string{"text"}})
	e.Load = func(dir string) (*LoadedModel, error) { return &LoadedModel{dir, m, tokenizer.Bytes()}, nil }
	if _, err := e.Run(t.Context(), []string{t.TempDir()}); err == nil {
		t.Error("a stream is divided by position, want an error")
	}
}
