package bench

import (
	"context"
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
)

// promptCases measure work that multiplies weights by many rows at once: reading a prompt of 512 tokens, and one more
// token for each of 32 sequences. The fields are tokens_per_s; over_float32, how many times faster that is than
// float32, measured in turn; and, for 32 sequences of Mamba-2, states_bf16, how many times faster it is with states in
// bf16. The GPT also reads as many tokens after 8,192 others, whose keys and values are random.
func promptCases(shrink int) []Case {
	h3, gpt := hybridAndGPT(shrink)
	h3.attention = nil
	var cases []Case
	for _, c := range []struct {
		name  string
		build func() (*model.Model, error)
	}{
		{"Mamba-130M", preset("mamba-130m", shrink)},
		{"Mamba2-130M", preset("mamba2-130m", shrink)},
		{"H3", h3.build}, {"GPT", gpt.build},
	} {
		for _, work := range []struct{ batch, tokens, past int }{{1, 512, 0}, {32, 1, 0}, {1, 512, 8192}} {
			if work.past > 0 && c.name != "GPT" { // others take about as long at any context
				continue
			}
			past := work.past / shrink
			for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8} {
				id := Row{{"bench", "prompt"}, {"model", c.name}, {"precision", p.String()},
					{"batch", float64(work.batch)}, {"tokens", float64(work.tokens)}}
				if past > 0 {
					id = append(id, Field{"context", float64(past)})
				}
				cases = append(cases, Case{ID: id, prepare: func(context.Context) (trial, error) {
					return reading(c.build, p, work.batch, work.tokens, past)
				}})
			}
		}
	}
	return cases
}

// states16 is the field for how many times faster states in bf16 are than in float32.
const states16 = "states_bf16"

// reading measures how a model reads a number of tokens for each of batch sequences after past others, in a precision
// and then in float32.
func reading(build func() (*model.Model, error), p engine.Precision, batch, tokens, past int) (trial, error) {
	precisions := []engine.Precision{p}
	if p != engine.Float32 {
		precisions = append(precisions, engine.Float32)
	}
	var runs []func() error
	add := func(m *model.Model) error {
		s := generate.NewBatch(m, batch)
		for i := range batch {
			if err := fillPast(s.State(i), m, past); err != nil {
				return err
			}
		}
		ids := randomIDs(rand.New(rand.NewPCG(1, 10)), batch*tokens, m.Config.VocabSize)
		runs = append(runs, func() error {
			next := s
			if past > 0 { // each time at the same place in the text
				next = s.Fork()
			} else if tokens > 1 {
				next = generate.NewBatch(m, batch)
			}
			return next.Feed(context.Background(), ids)
		})
		return nil
	}
	var first *model.Model
	for _, p := range precisions {
		m, err := packed(build, p)
		if err == nil {
			err = add(m)
		}
		if err != nil {
			return trial{}, err
		}
		if first == nil {
			first = m
		}
	}
	float32s := len(runs) - 1
	if tokens == 1 { // only steps access the states at each token
		rounded, err := first.Beside()
		if err == nil && rounded.SetStatePrecision(engine.BF16) == nil {
			err = add(rounded)
		}
		if err != nil {
			return trial{}, err
		}
	}
	return trial{runs: runs, fields: func(t []Timing) Row {
		row := Row{{"tokens_per_s", rounded(float64(batch*tokens) / t[0].CPU)},
			{"over_float32", rounded(t[float32s].CPU / t[0].CPU)}}
		if last := len(t) - 1; last > float32s {
			row = append(row, Field{states16, rounded(t[0].CPU / t[last].CPU)})
		}
		return row
	}}, nil
}
