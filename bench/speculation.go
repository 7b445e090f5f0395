package bench

import (
	"context"
	_ "embed" // the text of code that is edited
	"fmt"
	"math"
	"strings"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// code is a page of Go, and edit what is changed in it: an identifier, a type, and a line that is added.
//
//go:embed code.txt
var code string

var edit = strings.NewReplacer("dims", "widths", "[]int", "[]int32",
	"// Keep ", "// Keep bounds the memory.\n//\n// Keep ")

// speculationCases measure how fast a model writes a text with drafts by n-grams and without, in turn, one sequence at
// a time. The text is a page of code with a few changes after the page itself (edited), or the second half of the page
// after the first (new), in tokens of GPT-2. The weights are random, so the model is made to draw this text: as one
// would that writes it. Fields are tokens_per_s with drafts; over_plain, how many times that without; accepted, the
// share of the drafted tokens that were drawn; and per_call, how many tokens are drawn for each call of the model.
// Arguments are presets in place of the two models.
func speculationCases(args []string, shrink int) ([]Case, error) {
	models, others := servedModels(args, shrink)
	if len(others) > 0 {
		return nil, fmt.Errorf("found %q, want presets", others[0])
	}
	var cases []Case
	for _, c := range models {
		for _, text := range []string{"edited", "new"} {
			for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8, engine.Int4} {
				cases = append(cases, Case{
					ID: Row{{"bench", "speculation"}, {"model", c.name}, {"mode", text}, {"precision", p.String()}},
					prepare: func(ctx context.Context) (trial, error) {
						m, err := packed(c.build, p)
						if err != nil {
							return trial{}, err
						}
						return speculationTrial(ctx, m, text == "edited")
					},
				})
			}
		}
	}
	return cases, nil
}

// speculationTrial measures a model that writes code.
func speculationTrial(ctx context.Context, m *model.Model, edited bool) (trial, error) {
	before, after := code+"\nThe same, edited:\n\n", edit.Replace(code)
	if !edited {
		half := strings.LastIndex(code[:len(code)/2], "\n") + 1
		before, after = code[:half], code[half:]
	}
	w := scriptedWriter{m: m}
	var err error
	if w.prompt, err = w.encode(before); err == nil {
		w.text, err = w.encode(after)
	}
	if err != nil {
		return trial{}, err
	}
	s := generate.NewBatch(m, 1)
	if err := s.Feed(ctx, w.prompt); err != nil {
		return trial{}, err
	}
	w.at = session.Take(s)
	runs := []func() error{
		func() error { return w.write(ctx, generate.NGrams) },
		func() error { return w.write(ctx, nil) },
	}
	return trial{runs: runs, fields: func(t []Timing) Row {
		n := float64(len(w.text))
		return Row{{"tokens_per_s", rounded(n / t[0].CPU)}, {"over_plain", rounded(t[1].CPU / t[0].CPU)},
			{"accepted", rounded(float64(w.accepted) / math.Max(1, float64(w.drafted)))},
			{"per_call", rounded(n / (n - float64(w.accepted)))}}
	}}, nil
}

// scriptedWriter draws a text that is given, with all the work of a model that would.
type scriptedWriter struct {
	m                 *model.Model
	at                *session.Snapshot // after the prompt
	prompt, text      []int32
	drafted, accepted int // with the last drafts
}

// encode returns the tokens of a text, whose numbers a smaller vocabulary has, too.
func (w *scriptedWriter) encode(text string) ([]int32, error) {
	ids, err := tokenizer.GPT2().Encode(nil, []byte(text))
	for i := range ids {
		ids[i] %= int32(w.m.Config.VocabSize)
	}
	return ids, err
}

// write writes the text.
func (w *scriptedWriter) write(ctx context.Context, draft generate.Drafts) error {
	o := generate.Options{MaxTokens: len(w.text), IgnoreEnd: true, Draft: draft}
	writer, err := generate.NewWriter(tokenizer.IDs(w.m.Config.VocabSize), w.prompt, o)
	if err != nil {
		return err
	}
	left, likely := w.text, make([]float32, w.m.Config.VocabSize)
	err = session.Direct{}.Run(ctx, &session.Request{
		Session: w.at.Session(w.m), Draft: writer.Draft,
		Next: func([]float32) (int32, bool, error) {
			id := left[0]
			left = left[1:]
			likely[id] = 1
			_, drawn, err := writer.Next(likely)
			likely[id] = 0
			return drawn, len(left) > 0, err
		},
	})
	if draft != nil {
		w.drafted, w.accepted = writer.Drafted()
	}
	return err
}
