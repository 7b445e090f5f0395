package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// evaluateAll measures several models, one after the other, on the text that the first model would be measured on.
func evaluateAll(ctx context.Context, dirs []string, opt evalOptions) (reports []*evalReport, err error) {
	var p config.Problems
	for _, dir := range dirs {
		p.Add(wantModel(dir))
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	var first *evalTexts
	var tok tokenizer.Tokenizer // of the first
	others := 0
	for _, dir := range dirs {
		m, texts, err := openEval(ctx, dir, opt, first, tok)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		if first == nil {
			first, tok = texts, m.Tokenizer()
			defer func() { err = errors.Join(err, first.close()) }()
		}
		r, err := texts.measure(ctx, m, dir)
		if texts != first {
			others++
			err = errors.Join(err, texts.close())
		}
		if err != nil {
			return nil, err
		}
		r.Text = first.name
		reports = append(reports, r)
	}
	if others > 0 {
		fmt.Fprintln(os.Stderr, "note: the models have different tokenizers: losses and perplexities are of "+
			"different tokens; bits per byte and the "+
			"perplexity per word compare them")
	}
	slices.SortStableFunc(reports, func(a, b *evalReport) int { return cmp.Compare(a.BitsByte, b.BitsByte) })
	return reports, nil
}

// openEval reads a model and the text to measure it on. With a first model this is the first model's text, in the
// tokens of the model's own tokenizer.
func openEval(ctx context.Context, dir string, opt evalOptions, first *evalTexts,
	tok tokenizer.Tokenizer) (*hippo.Model, *evalTexts, error) {
	run, out, err := runOf(dir)
	if err != nil {
		return nil, nil, err
	}
	if first == nil {
		texts := &evalTexts{opt: opt, run: run, isRun: out != ""}
		if err := texts.check(); err != nil {
			return nil, nil, err
		}
		m, err := hippo.Load(dir, hippo.Precision(opt.Precision))
		if err == nil {
			err = texts.open(ctx, m.Tokenizer())
		}
		return m, texts, err
	}
	m, err := hippo.Load(dir, hippo.Precision(opt.Precision))
	if err != nil {
		return nil, nil, err
	}
	if first.isRun && len(opt.Data) == 0 && out != "" {
		a, b := first.run, run
		if !slices.Equal(a.Data, b.Data) || !slices.Equal(a.Valid, b.Valid) || a.ValidFraction != b.ValidFraction {
			fmt.Fprintf(os.Stderr, "note: %s was trained on other text than the first model: it may have learnt "+
				"from what it is measured on\n", dir)
		}
	}
	if m.Tokenizer().Fingerprint() == tok.Fingerprint() {
		return m, first, nil
	}
	texts, err := first.in(ctx, tok, m.Tokenizer())
	return m, texts, err
}

// in returns the text of e in the tokens of other. The tokenizer of e is tok.
func (e *evalTexts) in(ctx context.Context, tok, other tokenizer.Tokenizer) (texts *evalTexts, err error) {
	o := e.opt
	o.Baseline, o.TrainData = false, nil
	// a part of a text is a number of tokens, not of bytes
	if len(o.Data) == 0 || o.ValidFraction > 0 || slices.Contains(o.Data, "-") {
		dir, err := os.MkdirTemp("", "hippo-eval-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "text.txt")
		f, err := os.Create(path)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(e.valid.WriteText(f, tok), f.Close()); err != nil {
			return nil, err
		}
		o.Data, o.ValidFraction, o.Cache = []string{path}, 0, data.CacheNone
	}
	texts = &evalTexts{opt: o}
	return texts, texts.open(ctx, other)
}

// printEvals prints several reports as a table, the best first, with the losses of the n-gram baselines.
func printEvals(out io.Writer, reports []*evalReport) error {
	fmt.Fprintf(out, "text: %s\n\n", reports[0].Text)
	head := []string{"model", "parameters", "tokenizer", "window", "tokens", "bytes", "loss", "perplexity", "bits/byte",
		"per word", "tokens/s"}
	var lines [][]string
	for _, r := range reports {
		window := fmt.Sprint(r.SeqLen)
		if r.Stream {
			window = "stream"
		}
		lines = append(lines, []string{
			r.Model, status.Count(float64(r.Params)), r.Tokenizer, window, fmt.Sprint(r.Tokens), fmt.Sprint(r.Bytes),
			fmt.Sprintf("%.4f", r.Loss),
			fmt.Sprintf("%.4g", r.Perplexity), fmt.Sprintf("%.4f", r.BitsByte), fmt.Sprintf("%.4g", r.WordPerplex),
			status.Count(r.TokensPerSec),
		})
	}
	for _, r := range reports {
		if b := r.Baseline; b != nil {
			for _, c := range []counting{{"bigram", b.Bigram}, {"unigram", b.Unigram}} {
				lines = append(lines, []string{"(" + c.name + " counts)", "", r.Tokenizer, "", "", "",
					fmt.Sprintf("%.4f", c.loss), "",
					fmt.Sprintf("%.4f", c.loss*r.BitsByte/r.Loss)})
			}
			break // one baseline, of one tokenizer
		}
	}
	return printGrid(out, head, lines, false)
}

// printEvalsJSON prints a line for each report.
func printEvalsJSON(out io.Writer, reports []*evalReport) error {
	for _, r := range reports {
		if err := json.NewEncoder(out).Encode(r); err != nil {
			return err
		}
	}
	return nil
}
