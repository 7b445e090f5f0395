package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/train/text"
)

// evalOptions are the flags of hippo eval.
type evalOptions struct {
	text.ModelEvalOptions

	Adapter   string `json:"adapter" help:"folder of an adapter, which each DIR gets"`
	Precision string `json:"precision" enum:"stored,float32,bf16,int8,int4,int4min" help:"of the weights"`
	JSON      bool   `json:"json" help:"print a JSON object"`
}

// newEvalOptions are the options where no flag says otherwise.
func newEvalOptions() evalOptions {
	return evalOptions{
		ModelEvalOptions: text.ModelEvalOptions{
			TextField: data.DefaultTextField, Cache: os.Getenv("HIPPO_CACHE"),
			CacheLimit: os.Getenv("HIPPO_CACHE_LIMIT"), BatchSize: 8,
		},
		Precision: hippo.Stored,
	}
}

func newEval() *cobra.Command {
	opt := newEvalOptions()
	cmd := &cobra.Command{
		Use:   "eval DIR...",
		Short: "Measure how well a model predicts a text",
		Long: `Measure how well the model in DIR, or the published one of that name, predicts a text: the mean loss in
nats per token, its exponential (perplexity) and bits per byte of text, which models with different tokenizers can be
compared by. The text is read in windows that each start from an empty state, or with --stream from its start to its end
with the state carried along.

The folder of a training run is measured on the run's own validation part unless --data says otherwise; any other model
on --data, or on the built-in text. --baseline shows what counting comes to on the same text: the losses of a unigram
and a bigram model (interpolated, smoothed) of the same tokens. They are counted in --train_data; else, with
--valid_fraction, in the part of the text that is not measured; else in the training part of the run.

Several models are measured on the same text, that of the first, and printed as a table, the best first. Where their
tokenizers differ, bits per byte compares them.`,
		Example: `  hippo eval runs/tiny --baseline
  hippo eval runs/tiny --data notes.txt --stream --json
  hippo eval runs/tiny runs/tiny-2 models/h3-125m
  hippo eval runs/tiny --adapter runs/letters --data letters.txt
  hippo eval models/h3-125m --data test.jsonl.zst --seq_len 2048 --batch_size 4
  hippo eval models/mine --data book.txt --valid_fraction 0.1 --baseline`,
		Args:              wantArgs(1, math.MaxInt),
		ValidArgsFunction: completeFolders,
	}
	config.Register(cmd.Flags(), &opt)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := config.Load(&opt, config.Options{Flags: cmd.Flags()}); err != nil {
			return err
		}
		reports, err := evaluateAll(cmd.Context(), args, &opt)
		switch {
		case err != nil:
			return err
		case opt.JSON:
			return printEvalsJSON(cmd.OutOrStdout(), reports)
		case len(reports) > 1:
			return printEvals(cmd.OutOrStdout(), reports)
		}
		return printEval(status.NewTable(cmd.OutOrStdout()), reports[0])
	}
	return cmd
}

// evaluateAll measures the models of some names.
func evaluateAll(ctx context.Context, names []string, opt *evalOptions) ([]*text.ModelReport, error) {
	var p config.Problems
	var dirs []string
	for _, name := range names {
		dir, err := modelPath(name)
		p.Add(err)
		dirs = append(dirs, dir)
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	e := &text.ModelEval{
		Options: opt.ModelEvalOptions,
		Load: func(dir string) (*text.LoadedModel, error) {
			m, err := loadModel(dir, opt.Adapter, hippo.Precision(opt.Precision))
			if err != nil {
				return nil, err
			}
			return &text.LoadedModel{Dir: cmp.Or(m.AdapterDir(), m.Dir()), Net: m.Net(), Tokenizer: m.Tokenizer()}, nil
		},
		Note: func(text string) { fmt.Fprintln(os.Stderr, "note:", text) },
		Progress: func() (func(done, total int), func()) {
			p := newProgress("eval, tokens:")
			return p.update, p.close
		},
	}
	return e.Run(ctx, dirs)
}

// printEval prints the report of one model.
func printEval(t status.Table, r *text.ModelReport) error {
	t.Row("model", "%s, %s parameters", r.Model, status.Count(float64(r.Params)))
	t.Row("text", "%s", r.Text)
	mode := "windows of %d, each from an empty state"
	if r.Stream {
		mode = "one stream, in chunks of %d"
	}
	t.Row("read as", mode, r.SeqLen)
	t.Row("tokens", "%d, for %d bytes", r.Tokens, r.Bytes)
	t.Row("loss", "%.4f nats per token", r.Loss)
	t.Row("perplexity", "%.4g", r.Perplexity)
	t.Row("perplexity per word", "%.4g, of %d words between white space", r.WordPerplex, r.Words)
	t.Row("bits per byte", "%.4f", r.BitsByte)
	t.Row("speed", "%s tokens/s", status.Count(r.TokensPerSec))
	if b := r.Baseline; b != nil {
		t.Row("unigram loss", "%.4f nats per token, counted in %d tokens", b.Unigram, r.CountedIn)
		t.Row("bigram loss", "%.4f nats per token", b.Bigram)
	}
	return t.Flush()
}

// printEvals prints several reports as a table, the best first, with the losses of the n-gram baselines.
func printEvals(out io.Writer, reports []*text.ModelReport) error {
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
	return status.Grid(out, head, lines, false)
}

// printEvalsJSON prints a line for each report.
func printEvalsJSON(out io.Writer, reports []*text.ModelReport) error {
	for _, r := range reports {
		if err := json.NewEncoder(out).Encode(r); err != nil {
			return err
		}
	}
	return nil
}
