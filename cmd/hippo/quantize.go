package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/quantize"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/train/text"
)

// quantizeOptions are the flags of hippo quantize.
type quantizeOptions struct {
	Bits float64 `json:"bits" min:"4" max:"16" help:"of a weight: 4, 4.5 or 8; with --calibrate the average, 4 to 16"`

	Calibrate []string `json:"calibrate" help:"text to choose the bits of each matrix by: files, folders, globs, or -"`
	Tokens    int      `json:"calibrate_tokens" min:"64" help:"of that text, from its start"`
	MaxKL     float64  `json:"max_kl" min:"0" help:"with --calibrate, largest divergence (nats) in place of --bits"`
	Eval      []string `json:"eval" help:"text to measure the model on before and after"`
	Force     bool     `json:"force" help:"replace the model in OUT"`
	JSON      bool     `json:"json" help:"print a JSON object"`
}

// quantizeReport is what hippo quantize tells.
type quantizeReport struct {
	Model      string `json:"model"`
	Out        string `json:"out"`
	FileBefore int64  `json:"weights_before"` // bytes
	FileAfter  int64  `json:"weights_after"`
	*quantize.Report

	EvalBefore *text.ModelReport `json:"eval_before,omitempty"`
	EvalAfter  *text.ModelReport `json:"eval_after,omitempty"`
}

func newQuantize() *cobra.Command {
	opt := quantizeOptions{Bits: 4, Tokens: 2048}
	cmd := &cobra.Command{
		Use:   "quantize MODEL OUT",
		Short: "Make a model's folder with weights of few bits",
		Long: `Make the folder OUT of MODEL, a model's or a run's folder, a .gguf file or the name of a published model,
with weight matrices rounded to integers in groups of 32 that share a factor. Every command that runs a model reads OUT
at once, as it is, with the same results as the model that was rounded; it can neither be trained nor rounded again.

With --bits alone all matrices are alike: 4 (symmetric), 4.5 (with a least number for each group) or 8 bits a weight,
but x_proj and dt_proj 8 at least. The factors add half a bit. Filters, A, D, dt, norms, biases and states stay float32.

With --calibrate, each matrix gets 4, 4.5, 8 or 16 bits by how much rounding it alone moves the model's predictions of a
text: the Kullback-Leibler divergence of the next token's distribution, in nats. Of all choices with an average of
--bits (4.5, say), or with --max_kl of those that diverge no more than that, the one is taken that costs least by the
sum of the divergences. That takes four passes over the text for each matrix. The table shows what each costs.`,
		Example: `  hippo quantize models/mamba-130m models/mamba-130m-4bit
  hippo quantize models/mamba-130m small --calibrate wiki.txt --bits 4.5 --eval test.txt
  hippo quantize org/name small --calibrate wiki.txt --max_kl 0.02 --json
  hippo run small "Call me"`,
		Args:              wantArgs(2, 2),
		ValidArgsFunction: completeArgs(completeFolders, completeFolders),
	}
	config.Register(cmd.Flags(), &opt)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := config.Load(&opt, config.Options{Flags: cmd.Flags()}); err != nil {
			return err
		}
		if err := opt.check(); err != nil {
			return err
		}
		r, err := opt.run(cmd.Context(), args[0], args[1])
		if err != nil {
			return err
		}
		if opt.JSON {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
		}
		return r.print(cmd.OutOrStdout())
	}
	return cmd
}

// check returns the problems of the flags.
func (o *quantizeOptions) check() error {
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

// run quantizes a model, and measures it where that is asked for.
func (o *quantizeOptions) run(ctx context.Context, name, out string) (*quantizeReport, error) {
	path, err := modelPath(name)
	if err != nil {
		return nil, err
	}
	if err := mayWrite(out, o.Force); err != nil {
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
	m, report, err := o.quantized(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &quantizeReport{Model: m.Dir(), Out: out, Report: report}
	if r.FileBefore, err = weightsSize(m.Dir()); err != nil {
		return nil, err
	}
	if err := writeQuantized(out, m); err != nil {
		return nil, err
	}
	if r.FileAfter, err = weightsSize(out); err != nil {
		return nil, err
	}
	if len(o.Eval) > 0 {
		err = o.evaluate(ctx, path, r)
	}
	return r, err
}

// quantized reads a model and rounds its weights.
func (o *quantizeOptions) quantized(ctx context.Context, path string) (*hippo.Model, *quantize.Report, error) {
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
	bar := newProgress("calibrate, passes:")
	report, err := quantize.Calibrate(ctx, m.Net(), ids, quantize.Options{
		Bits: o.Bits, MaxKL: o.MaxKL, Progress: bar.update,
	})
	bar.close()
	if err != nil {
		return nil, nil, fmt.Errorf("calibrate: %w", err)
	}
	return m, report, nil
}

// calibrationText are the first tokens of the text.
func (o *quantizeOptions) calibrationText(ctx context.Context, m *hippo.Model) (ids []int32, err error) {
	tokens, corpus, notes, err := text.Tokenize(ctx, m.Tokenizer(), o.Calibrate, text.ReadOptions{
		TextField: data.DefaultTextField, Binary: true, Cache: data.CacheNone,
	})
	for _, note := range notes {
		fmt.Fprintln(os.Stderr, "note:", note)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tokens.Close(), corpus.Close()) }()
	ids = make([]int32, min(o.Tokens, tokens.Len()))
	_, err = tokens.Read(ids, 0)
	if err == nil && len(ids) < o.Tokens {
		fmt.Fprintf(os.Stderr, "note: calibrate: found %d tokens, wanted %d\n", len(ids), o.Tokens)
	}
	return ids, err
}

// writeQuantized writes a model's folder, whole or not at all.
func writeQuantized(out string, m *hippo.Model) error {
	texts, err := release.ChatTexts(m.Dir())
	if err != nil {
		return err
	}
	net := m.Net()
	net.Config.Tokenizer = m.Tokenizer().Fingerprint()
	return writeFolder(out, net.SavePacked, m.Tokenizer(), texts)
}

// weightsSize is the size of the weights of a folder or a file.
func weightsSize(dir string) (int64, error) {
	open := release.OpenWeights
	if release.IsGGUF(dir) {
		open = checkpoint.OpenGGUF
	}
	f, err := open(dir)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return int64(f.Size()), nil
}

// samePlace tells whether two paths are one file or folder.
func samePlace(a, b string) (bool, error) {
	x, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y), nil // what is not there yet is another place
}

// evaluate measures the model before and after on a text.
func (o *quantizeOptions) evaluate(ctx context.Context, path string, r *quantizeReport) error {
	e := newEvalOptions()
	e.Data = o.Eval
	for _, side := range []struct {
		dir string
		to  **text.ModelReport
	}{{path, &r.EvalBefore}, {r.Out, &r.EvalAfter}} {
		reports, err := evaluateAll(ctx, []string{side.dir}, &e)
		if err != nil {
			return fmt.Errorf("eval: %w (%s has been written)", err, r.Out)
		}
		*side.to = reports[0]
		e.SeqLen = reports[0].SeqLen // that of a run, which OUT does not know
	}
	return nil
}

// print prints a table of the matrices, and what came out.
func (r *quantizeReport) print(out io.Writer) error {
	head := []string{"matrix", "shape", "type", "bytes"}
	kinds := []string{"int4", "int4min", "int8", "bf16"}
	if r.Calibration != nil {
		for _, kind := range kinds {
			head = append(head, "KL of "+kind)
		}
	}
	var lines [][]string
	for _, x := range r.Matrices {
		line := []string{x.Name, strings.Trim(strings.ReplaceAll(fmt.Sprint(x.Shape), " ", "x"), "[]"), x.Type,
			status.Bytes(uint64(x.Bytes))}
		if r.Calibration != nil {
			for _, kind := range kinds {
				line = append(line, fmt.Sprintf("%.2g", x.KL[kind]))
			}
		}
		lines = append(lines, line)
	}
	if err := status.Grid(out, head, lines, false); err != nil {
		return err
	}
	fmt.Fprintln(out)
	t := status.NewTable(out)
	t.Row("read", "%s, weights of %s", r.Model, status.Bytes(uint64(r.FileBefore)))
	t.Row("wrote", "%s, weights of %s", r.Out, status.Bytes(uint64(r.FileAfter)))
	t.Row("matrices", "%s numbers in %s: %.2f bits each, with factors", status.Count(float64(r.Numbers)),
		status.Bytes(uint64(r.Bytes)), r.BitsPerWeight())
	t.Row("all else", "%s, float32", status.Bytes(uint64(r.Others)))
	if c := r.Calibration; c != nil {
		t.Row("KL divergence", "%.4g nats per token, over %d tokens", c.KL, c.Tokens)
		t.Row("perplexity", "%.5g before, %.5g after, on the text of the calibration", c.Before, c.After)
	}
	if r.EvalBefore != nil {
		before, after := r.EvalBefore, r.EvalAfter
		t.Row("eval", "%s, %d tokens", before.Text, before.Tokens)
		t.Row("eval loss", "%.5f before, %.5f after (%+.3f %%)", before.Loss, after.Loss,
			100*(after.Loss/before.Loss-1))
		t.Row("eval perplexity", "%.5g before, %.5g after", math.Exp(before.Loss), math.Exp(after.Loss))
	}
	return t.Flush()
}
