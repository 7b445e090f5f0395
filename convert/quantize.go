package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/quantize"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/train/text"
)

// QuantizeOptions specifies how to round the weights of a model.
type QuantizeOptions struct {
	Bits      float64  `json:"bits" min:"4" max:"16" help:"bits of a weight: 4, 4.5, 8; with --calibrate their mean"`
	Calibrate []string `json:"calibrate" help:"text to choose the bits of each matrix by: files, folders, globs, or -"`
	Tokens    int      `json:"calibrate_tokens" min:"64" help:"tokens of that text to read, from its start"`
	MaxKL     float64  `json:"max_kl" min:"0" help:"with --calibrate, largest divergence (nats) in place of --bits"`
	Eval      []string `json:"eval" help:"text to measure the model on before and after"`
	Force     bool     `json:"force" help:"replace the model in OUT"`

	Note     func(text string)                                 `json:"-"`
	Progress func() (update func(done, total int), end func()) `json:"-"`
	// Measure evaluates the model at a path on the text Eval, in windows of seqLen tokens. 0 means those of its
	// training run.
	Measure func(ctx context.Context, path string, seqLen int) (*text.ModelReport, error) `json:"-"`
}

// Quantized reports the result of Quantize.
type Quantized struct {
	Model      string `json:"model"`
	Out        string `json:"out"`
	FileBefore int64  `json:"weights_before"` // bytes
	FileAfter  int64  `json:"weights_after"`
	*quantize.Report

	EvalBefore *text.ModelReport `json:"eval_before,omitempty"`
	EvalAfter  *text.ModelReport `json:"eval_after,omitempty"`
}

// Check returns the problems of the options.
func (o *QuantizeOptions) Check() error {
	var p config.Problems
	if len(o.Calibrate) == 0 {
		_, err := quantize.Uniform(o.Bits)
		p.Add(err)
		if o.MaxKL > 0 {
			p.Addf("max_kl", "found it without calibrate, want a text to measure with")
		}
	}
	return p.Err()
}

// Quantize writes the model at a path with rounded weights to the folder out, and measures both if o.Eval is set.
func Quantize(ctx context.Context, path, out string, o QuantizeOptions) (*Quantized, error) {
	if err := CheckOut(out, o.Force); err != nil {
		return nil, err
	}
	_, dir, err := release.DescribeFloat(path)
	if err != nil {
		return nil, err
	}
	if same, err := samePlace(dir, out); err != nil {
		return nil, err
	} else if same {
		return nil, fmt.Errorf("%s: found the model itself in the place of OUT, want another folder", out)
	}
	m, report, err := o.rounded(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &Quantized{Model: m.Dir(), Out: out, Report: report}
	if r.FileBefore, err = weightsSize(m.Dir()); err != nil {
		return nil, err
	}
	if err := writeChanged(out, m, m.Net().SavePacked); err != nil {
		return nil, err
	}
	if r.FileAfter, err = weightsSize(out); err != nil || len(o.Eval) == 0 {
		return r, err
	}
	if r.EvalBefore, err = o.Measure(ctx, path, 0); err == nil {
		r.EvalAfter, err = o.Measure(ctx, out, r.EvalBefore.SeqLen) // that of the run, which OUT does not record
	}
	if err != nil {
		return nil, fmt.Errorf("eval: %w (%s has been written)", err, out)
	}
	return r, nil
}

// rounded reads a model and rounds its weights.
func (o *QuantizeOptions) rounded(ctx context.Context, path string) (*hippo.Model, *quantize.Report, error) {
	if len(o.Calibrate) == 0 {
		p, err := quantize.Uniform(o.Bits)
		if err != nil {
			return nil, nil, err
		}
		m, err := hippo.Load(path, hippo.Precision(p.String()))
		if err != nil {
			return nil, nil, err
		}
		return m, quantize.Describe(m.Net()), nil
	}
	m, err := hippo.Load(path, hippo.Precision(hippo.Stored))
	if err != nil {
		return nil, nil, err
	}
	ids, err := o.calibrationText(ctx, m)
	if err != nil {
		return nil, nil, err
	}
	update, end := o.Progress()
	report, err := quantize.Calibrate(ctx, m.Net(), ids, quantize.Options{
		Bits: o.Bits, MaxKL: o.MaxKL, Progress: update,
	})
	end()
	if err != nil {
		return nil, nil, fmt.Errorf("calibrate: %w", err)
	}
	return m, report, nil
}

// calibrationText returns the first o.Tokens tokens of the text.
func (o *QuantizeOptions) calibrationText(ctx context.Context, m *hippo.Model) (ids []int32, err error) {
	tokens, corpus, notes, err := text.Tokenize(ctx, m.Tokenizer(), o.Calibrate, text.ReadOptions{
		TextField: data.DefaultTextField, Binary: true, Cache: data.CacheNone,
	})
	for _, note := range notes {
		o.Note(note)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tokens.Close(), corpus.Close()) }()
	ids = make([]int32, min(o.Tokens, tokens.Len()))
	_, err = tokens.Read(ids, 0)
	if err == nil && len(ids) < o.Tokens {
		o.Note(fmt.Sprintf("calibrate: found %d tokens, wanted %d", len(ids), o.Tokens))
	}
	return ids, err
}

// Print prints a table of the matrices, and the results.
func (r *Quantized) Print(out io.Writer) error {
	head := []string{"matrix", "shape", "type", "bytes"}
	var kinds []string
	if r.Calibration != nil {
		kinds = []string{"int4", "int4min", "int8", "bf16"}
	}
	for _, kind := range kinds {
		head = append(head, "KL of "+kind)
	}
	var lines [][]string
	for _, x := range r.Matrices {
		line := []string{x.Name, strings.Trim(strings.ReplaceAll(fmt.Sprint(x.Shape), " ", "x"), "[]"), x.Type,
			status.Bytes(x.Bytes)}
		for _, kind := range kinds {
			line = append(line, fmt.Sprintf("%.2g", x.KL[kind]))
		}
		lines = append(lines, line)
	}
	if err := status.Grid(out, head, lines, false); err != nil {
		return err
	}
	fmt.Fprintln(out)
	t := status.NewTable(out)
	t.Row("read", "%s, weights of %s", r.Model, status.Bytes(r.FileBefore))
	t.Row("wrote", "%s, weights of %s", r.Out, status.Bytes(r.FileAfter))
	t.Row("matrices", "%s numbers in %s: %.2f bits each, with factors", status.Count(r.Numbers),
		status.Bytes(r.Bytes), r.BitsPerWeight())
	t.Row("all else", "%s, float32", status.Bytes(r.Others))
	if c := r.Calibration; c != nil {
		t.Row("KL divergence", "%.4g nats per token, over %d tokens", c.KL, c.Tokens)
		t.Row("perplexity", "%.5g before, %.5g after, on the text of the calibration", c.Before, c.After)
	}
	if before, after := r.EvalBefore, r.EvalAfter; before != nil {
		t.Row("eval", "%s, %d tokens", before.Text, before.Tokens)
		t.Row("eval loss", "%.5f before, %.5f after (%+.3f %%)", before.Loss, after.Loss,
			100*(after.Loss/before.Loss-1))
		t.Row("eval perplexity", "%.5g before, %.5g after", math.Exp(before.Loss), math.Exp(after.Loss))
	}
	return t.Flush()
}
