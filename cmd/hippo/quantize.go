package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/convert"
	"github.com/hippo-ssm/hippo/train/text"
)

func newQuantize() *cobra.Command {
	opt := struct {
		convert.QuantizeOptions
		JSON bool `json:"json" help:"print a JSON object"`
	}{QuantizeOptions: convert.QuantizeOptions{
		Bits: 4, Tokens: 2048, Note: note,
		Progress: func() (func(done, total int), func()) { return newProgress("calibrate, passes:").functions() },
	}}
	opt.Measure = func(ctx context.Context, path string, seqLen int) (*text.ModelReport, error) {
		e := newEvalOptions()
		e.Data, e.SeqLen = opt.Eval, seqLen
		reports, err := evaluateAll(ctx, []string{path}, &e)
		if err != nil {
			return nil, err
		}
		return reports[0], nil
	}
	cmd := &cobra.Command{
		Use:   "quantize MODEL OUT",
		Short: "Round a model's weights to few bits",
		Long: `Write MODEL, a model's or a run's folder, a .gguf file or the name of a published model, to the folder
OUT with its weight matrices rounded to integers, in groups of 32 that share a factor. Every command that runs a model
reads OUT, with the same results as the rounded model. OUT can neither be trained nor rounded again.

With --bits alone all matrices get the same: 4 (symmetric), 4.5 (with a minimum for each group) or 8 bits a weight, but
x_proj and dt_proj at least 8. The factors add half a bit. Filters, A, D, dt, norms, biases and states stay float32.

With --calibrate, each matrix gets 4, 4.5, 8 or 16 bits by how much rounding it alone moves the model's predictions of a
text: the Kullback-Leibler divergence of the next token's distribution, in nats. Of all choices with an average of
--bits (4.5, say), or with --max_kl of those that diverge at most that much, the one with the smallest sum of
divergences is taken. That takes four passes over the text for each matrix. The table shows what each costs.`,
		Example: `  hippo quantize models/mamba-130m models/mamba-130m-4bit
  hippo quantize models/mamba-130m small --calibrate wiki.txt --bits 4.5 --eval test.txt
  hippo quantize org/name small --calibrate wiki.txt --max_kl 0.02 --json
  hippo run small "Call me"`,
		Args:              wantArgs(2, 2),
		ValidArgsFunction: completeArgs(completeFolders, completeFolders),
	}
	return configured(cmd, &opt, func(cmd *cobra.Command, args []string) error {
		if err := opt.Check(); err != nil {
			return err
		}
		path, err := modelPath(args[0])
		if err != nil {
			return err
		}
		r, err := convert.Quantize(cmd.Context(), path, args[1], opt.QuantizeOptions)
		if err != nil {
			return err
		}
		return show(cmd, r, r.Print)
	})
}

// note prints a note on standard error.
func note(text string) { fmt.Fprintln(os.Stderr, "note:", text) }
