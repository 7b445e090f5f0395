package bench

import (
	"context"
	_ "embed" // the text of code that is edited
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// code is a page of Go. edit makes changes in it: an identifier, a type, and an added line.
//
//go:embed code.txt
var code string

var edit = strings.NewReplacer("dims", "widths", "[]int", "[]int32",
	"// Keep ", "// Keep bounds the memory.\n//\n// Keep ")

// speculationCases measure how fast a model writes a text with n-gram drafts and without drafts, in turn, one sequence
// at a time. The text is a page of code with a few changes after the page itself (edited), or the second half of the
// page after the first (new), in tokens of GPT-2. The weights are random, so the model is made to draw this text, as a
// model that writes it would. Fields are tokens_per_s with drafts; over_plain, its ratio to that without; accepted, the
// share of the drafted tokens that were drawn; and per_call, the number of tokens drawn for each call of the model.
// Arguments are presets in place of the two models, or folders and files of trained models. A trained model writes what
// it finds most probable after the first half of the page, with n-gram drafts (own-ngram) and, if it has a head for
// multi-token prediction, with drafts by that (own-mtp). For a preset whose last layer is gated attention, as in the
// families that have such a head, the second half of the page is also drawn with drafts by one (mtp). Its weights are
// random, too, so each token of its guesses is made right with the probability mtpRight.
func speculationCases(args []string, shrink int) ([]Case, error) {
	models, trained := servedModels(args, shrink)
	if len(trained) == len(args) && len(args) > 0 {
		models = nil
	}
	var cases []Case
	for _, path := range trained {
		own, err := ownCases(path)
		if err != nil {
			return nil, err
		}
		cases = append(cases, own...)
	}
	for _, c := range models {
		texts := []string{"edited", "new"}
		if shape, err := model.Preset(c.name); err == nil && headOf(&shape) != "" {
			texts = append(texts, "mtp")
		}
		for _, text := range texts {
			for _, p := range speculated {
				cases = append(cases, Case{
					ID: speculationID(c.name, text, p),
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

// speculated are the precisions of models that write with drafts.
var speculated = []engine.Precision{engine.Float32, engine.BF16, engine.Int8, engine.Int4}

func speculationID(name, mode string, p engine.Precision) Row {
	return Row{{"bench", "speculation"}, {"model", name}, {"mode", mode}, {"precision", p.String()}}
}

// ownCases measure the model in a folder or a file, which writes its own text.
func ownCases(path string) (cases []Case, err error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("found %q, want presets, and folders or files of models: %w", path, err)
	}
	m, _, err := release.Describe(path)
	if err != nil {
		return nil, err
	}
	modes := []string{"own-ngram", "own-mtp"}
	_, err = release.LoadMTP(path, m, func(*model.MTP, model.Weights) error { return nil })
	if errors.Is(err, release.ErrNoMTP) {
		modes = modes[:1]
	} else if err != nil {
		return nil, err
	}
	for _, mode := range modes {
		for _, p := range speculated {
			cases = append(cases, Case{
				ID: speculationID(filepath.Base(path), mode, p),
				prepare: func(ctx context.Context) (trial, error) {
					m, at, err := release.LoadDirPacked(path, p)
					if err != nil {
						return trial{}, err
					}
					tok, err := release.LoadTokenizer(at, &m.Config)
					if err == nil && mode == "own-mtp" {
						m.MTP, err = release.LoadMTP(path, m, (*model.MTP).LoadAlike)
					}
					if err != nil {
						return trial{}, err
					}
					return ownTrial(ctx, m, tok)
				},
			})
		}
	}
	return cases, nil
}

// ownTokens is the number of tokens that a model writes of its own.
const ownTokens = 256

// ownTrial measures a model that continues the first half of the page, with drafts by its head if it has one.
func ownTrial(ctx context.Context, m *model.Model, tok tokenizer.Tokenizer) (trial, error) {
	prompt, err := tok.Encode(nil, []byte(firstHalf()))
	if err != nil {
		return trial{}, err
	}
	w := scriptedWriter{m: m, prompt: prompt, tokens: ownTokens}
	if m.MTP != nil {
		return w.trial(ctx, generate.MTPDrafts)
	}
	return w.trial(ctx, generate.NGrams)
}

// firstHalf returns the first half of the page, up to the end of a line.
func firstHalf() string { return code[:strings.LastIndex(code[:len(code)/2], "\n")+1] }

// mtpRight is the probability that a token guessed by a head for multi-token prediction is right. That of the first
// token is 0.85 to 0.9 in "DeepSeek-V3", §5.4.3.
const mtpRight = 0.85

// headOf returns the layer of a head for multi-token prediction for models of a shape, or "".
func headOf(c *model.Config) string {
	plan, err := c.Plan()
	if err != nil || !strings.HasPrefix(plan[len(plan)-1], "gated-attention") {
		return ""
	}
	return plan[len(plan)-1] + "/" + c.MLP
}

// withHead gives a model a head with random weights, in its precision.
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
		before = firstHalf()
		after = code[len(before):]
	}
	w := scriptedWriter{m: m}
	var err error
	if w.prompt, err = w.encode(before); err == nil {
		w.text, err = w.encode(after)
	}
	if err != nil {
		return trial{}, err
	}
	w.tokens = len(w.text)
	if mode != "mtp" {
		return w.trial(ctx, generate.NGrams)
	}
	if err := withHead(m); err != nil {
		return trial{}, err
	}
	return w.trial(ctx, generate.MTPDrafts)
}

// trial measures writing the text after the prompt with drafts, and without.
func (w *scriptedWriter) trial(ctx context.Context, drafts generate.Drafts) (trial, error) {
	m, head := w.m, w.m.MTP
	s := generate.NewBatch(m, 1)
	if err := s.Feed(ctx, w.prompt); err != nil {
		return trial{}, err
	}
	w.at = session.Take(s)
	write := func(head *model.MTP, drafts generate.Drafts) func() error {
		return func() error {
			m.MTP = head // nil for plain writing, as the head reads along
			return w.write(ctx, drafts)
		}
	}
	runs := []func() error{write(head, drafts), write(nil, nil)}
	return trial{runs: runs, fields: func(t []Timing) Row {
		n := float64(w.tokens)
		return Row{{"tokens_per_s", rounded(n / t[0].CPU)}, {"over_plain", rounded(t[1].CPU / t[0].CPU)},
			{"accepted", rounded(float64(w.accepted) / math.Max(1, float64(w.drafted)))},
			{"per_call", rounded(n / (n - float64(w.accepted)))}}
	}}, nil
}

// scriptedWriter draws a given text, with all the work of a model that would write it, or the model's own text.
type scriptedWriter struct {
	m                 *model.Model
	at                *session.Snapshot // after the prompt
	prompt, text      []int32           // text is empty if the model draws its own
	tokens            int               // number of tokens to draw
	drafted, accepted int               // with the last drafts
}

// encode returns the tokens of a text, with ids that also fit into a smaller vocabulary.
func (w *scriptedWriter) encode(text string) ([]int32, error) {
	ids, err := tokenizer.GPT2().Encode(nil, []byte(text))
	for i := range ids {
		ids[i] %= int32(w.m.Config.VocabSize)
	}
	return ids, err
}

// write writes the text.
func (w *scriptedWriter) write(ctx context.Context, draft generate.Drafts) error {
	o := generate.Options{MaxTokens: w.tokens, IgnoreEnd: true, Draft: draft}
	writer, err := generate.NewWriter(tokenizer.IDs(w.m.Config.VocabSize), w.prompt, o)
	if err != nil {
		return err
	}
	left, likely, rng := w.text, make([]float32, w.m.Config.VocabSize), rand.New(rand.NewPCG(1, 8))
	n := w.tokens
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
		Next: func(logits []float32) (int32, bool, error) {
			n--
			if w.text == nil {
				_, id, err := writer.Next(logits)
				return id, n > 0, err
			}
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
