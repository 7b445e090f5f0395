package bench

import (
	"context"
	_ "embed" // the text of code that is edited
	"fmt"
	"math"
	"math/rand/v2"
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
// Arguments are presets in place of the two models. Of a model whose last layer is gated attention, as in the families
// that have a head for multi-token prediction, the second half of the page is also drawn with drafts by such a head
// (mtp). Its weights are random, too, so that each token of its guesses is made right with the probability mtpRight.
func speculationCases(args []string, shrink int) ([]Case, error) {
	models, others := servedModels(args, shrink)
	if len(others) > 0 {
		return nil, fmt.Errorf("found %q, want presets", others[0])
	}
	var cases []Case
	for _, c := range models {
		texts := []string{"edited", "new"}
		if shape, err := model.Preset(c.name); err == nil && headOf(&shape) != "" {
			texts = append(texts, "mtp")
		}
		for _, text := range texts {
			for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8, engine.Int4} {
				cases = append(cases, Case{
					ID: Row{{"bench", "speculation"}, {"model", c.name}, {"mode", text}, {"precision", p.String()}},
					prepare: func(ctx context.Context) (trial, error) {
						m, err := packed(c.build, p)
						if err != nil {
							return trial{}, err
						}
						return speculationTrial(ctx, m, text)
					},
				})
			}
		}
	}
	return cases, nil
}

// mtpRight is the probability that a token is right which a head for multi-token prediction guesses: that of the first
// is 0.85 to 0.9 in "DeepSeek-V3", §5.4.3.
const mtpRight = 0.85

// headOf is the layer of a head for multi-token prediction for models of a shape, "" for none.
func headOf(c *model.Config) string {
	plan, err := c.Plan()
	if err != nil || !strings.HasPrefix(plan[len(plan)-1], "gated-attention") {
		return ""
	}
	return plan[len(plan)-1] + "/" + c.MLP
}

// withHead gives a model a head of random weights, in its precision.
func withHead(m *model.Model) error {
	h, err := model.NewMTP(m, headOf(&m.Config))
	if err != nil {
		return err
	}
	h.Init(2)
	m.MTP = h
	return h.PackAlike()
}

// speculationTrial measures a model that writes code.
func speculationTrial(ctx context.Context, m *model.Model, mode string) (trial, error) {
	before, after := code+"\nThe same, edited:\n\n", edit.Replace(code)
	if mode != "edited" {
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
	drafts := generate.NGrams
	if mode == "mtp" {
		drafts = generate.MTPDrafts
		if err := withHead(m); err != nil {
			return trial{}, err
		}
	}
	head := m.MTP
	s := generate.NewBatch(m, 1)
	if err := s.Feed(ctx, w.prompt); err != nil {
		return trial{}, err
	}
	w.at = session.Take(s)
	write := func(head *model.MTP, drafts generate.Drafts) func() error {
		return func() error {
			m.MTP = head // which reads along, so that plain writing has none
			return w.write(ctx, drafts)
		}
	}
	runs := []func() error{write(head, drafts), write(nil, nil)}
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
	left, likely, rng := w.text, make([]float32, w.m.Config.VocabSize), rand.New(rand.NewPCG(1, 8))
	err = session.Direct{}.Run(ctx, &session.Request{
		Session: w.at.Session(w.m),
		Draft: func(ctx context.Context, s *generate.Batch, n int) ([]int32, error) {
			guess, err := writer.Draft(ctx, s, n)
			for i := range guess {
				if w.m.MTP != nil && i < len(left) && rng.Float64() < mtpRight {
					guess[i] = left[i]
				}
			}
			return guess, err
		},
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
