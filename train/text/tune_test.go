package text

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// elementsOf returns the weights of a model.
func elementsOf(m *model.Model) (all []float32) {
	m.Params("", func(_ string, p *nn.Param) { all = append(all, p.Floats()...) })
	return all
}

// TestTune checks that a tuned copy has the same weights as a run with these settings that starts from the model, and
// that the losses are those of the model and of the copy.
func TestTune(t *testing.T) {
	ids := make([]int32, 200)
	for i := range ids {
		ids[i] = int32(i * i % 7)
	}
	base := toymodel.New(t, "h3", 256)
	before := elementsOf(base)
	o := TuneOptions{Steps: 21, BatchSize: 2, SeqLen: 8, LR: 3e-3, Seed: 5}
	tuned, err := Tune(t.Context(), base, tokenizer.Bytes(), ids[:150], ids[150:], o)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(elementsOf(base), before) {
		t.Error("the model has changed")
	}
	c := tiny()
	c.Model, c.Seed = base.Config, 5
	c.Train.Steps, c.Train.BatchSize, c.Train.SeqLen, c.Optim.LR, c.Optim.SSMLR, c.Optim.Warmup = 21, 2, 8, 3e-3, 0, 2
	d := &Dataset{Tokenizer: tokenizer.Bytes()}
	if d.Train, err = data.FromIDs(ids[:150], 256); err == nil {
		d.Valid, err = data.FromIDs(ids[150:], 256)
	}
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(c, d)
	if err != nil {
		t.Fatal(err)
	}
	x := elementsOf(base)
	w.Model.Params("", func(_ string, p *nn.Param) {
		p.CopyFrom(x[:p.Len()])
		x = x[p.Len():]
	})
	loss := func(m *model.Model) float64 {
		r, err := Evaluate(t.Context(), m, d.Valid, EvalOptions{SeqLen: 8, BatchSize: 2})
		if err != nil {
			t.Fatal(err)
		}
		return r.Loss
	}
	if tuned.Before != loss(base) || tuned.After != loss(tuned.Model) || tuned.After > tuned.Before-0.5 {
		t.Errorf("losses of %v and %v, want %v and %v", tuned.Before, tuned.After, loss(base), loss(tuned.Model))
	}
	loop, err := w.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for range 21 {
		if _, _, err := loop.Step(); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(elementsOf(tuned.Model), elementsOf(w.Model)) {
		t.Error("the weights are not those of a run")
	}

	o.Steps, o.LR = 1, 1e38
	if r, err := Tune(t.Context(), base, tokenizer.Bytes(), ids[:150], ids[150:], o); err != nil ||
		!math.IsInf(r.After, 1) {
		t.Errorf("a model that an update ruins: %+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Tune(ctx, base, tokenizer.Bytes(), ids[:150], ids[150:], o); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	packed, adapted := toymodel.New(t, "h3", 256), toymodel.New(t, "h3", 256)
	_, failed := adapted.Adapt(model.AdapterShape{Rank: 2, Alpha: 4})
	if err := errors.Join(failed, packed.Pack(engine.BF16)); err != nil {
		t.Fatal(err)
	}
	for want, in := range map[string]struct {
		m            *model.Model
		train, valid []int32
	}{
		"in fewer bits than float32":         {packed, ids, ids},
		"found a model with an adapter":      {adapted, ids, ids},
		"training text: ":                    {base, ids[:1], ids},
		"validation text: found 1 tokens":    {base, ids, ids[:1]},
		"token 0: the tokenizer gave id 256": {base, []int32{256, 1}, ids},
		"token 1: the tokenizer gave id 257": {base, ids, []int32{1, 257}},
	} {
		if _, err := Tune(t.Context(), in.m, tokenizer.Bytes(), in.train, in.valid, o); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("found the error %v, want %q", err, want)
		}
	}
}
