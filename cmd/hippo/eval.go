package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/train"
)

// evalOptions are the flags of hippo eval.
type evalOptions struct {
	Data []string `json:"data" help:"text to measure on: files, folders, globs, or -; empty: see above"`

	ValidFraction float64 `json:"valid_fraction" min:"0" max:"0.999" help:"measure on this last part only; 0: all"`

	TextField  string `json:"text_field" help:"field of a JSONL line that holds the text"`
	Cache      string `json:"cache" help:"folder of tokenized data; empty: the user's; none: keep it in memory"`
	CacheLimit string `json:"cache_limit" help:"most the cache may hold, such as 20GB; empty: see hippo train"`

	Stream    bool `json:"stream" help:"carry the state through the whole text, in place of separate windows"`
	Keep      int  `json:"keep" min:"0" help:"with --stream, positions attention sees before the chunk; 0: all"`
	SeqLen    int  `json:"seq_len" min:"0" help:"tokens of a window or (--stream) chunk; 0: as in training, or 1024"`
	BatchSize int  `json:"batch_size" min:"1" help:"windows at a time"`

	Baseline  bool     `json:"baseline" help:"count unigrams and bigrams in the training text and measure them, too"`
	TrainData []string `json:"train_data" help:"training text of the baseline; empty: see above"`

	Precision string `json:"precision" enum:"float32,bf16,int8" help:"of the weights: fewer bits are faster"`
	JSON      bool   `json:"json" help:"print a JSON object"`
}

// defaultSeqLen is the window for a model without a training run: half the length that the releases were trained on.
const defaultSeqLen = 1024

func newEval() *cobra.Command {
	opt := evalOptions{
		TextField: data.DefaultTextField, Cache: os.Getenv("HIPPO_CACHE"), CacheLimit: os.Getenv("HIPPO_CACHE_LIMIT"),
		BatchSize: 8, Precision: "float32",
	}
	cmd := &cobra.Command{
		Use:   "eval DIR...",
		Short: "Measure how well a model predicts a text",
		Long: `Measure how well the model in DIR, or the published one of that name, predicts a text: the mean loss in nats
per token, its exponential (perplexity) and bits per byte of text, which models with different tokenizers can be compared
by. The text is read in windows that each start from an empty state, or with --stream from its start to its end with
the state carried along.

The folder of a training run is measured on the run's own validation part unless --data says otherwise; any other model
on --data, or on the built-in text. --baseline shows what counting comes to on the same text: the losses of a unigram
and a bigram model (interpolated, smoothed) of the same tokens. They are counted in --train_data; else, with
--valid_fraction, in the part of the text that is not measured; else in the training part of the run.

Several models are measured on the same text, that of the first, and printed as a table, the best first. Where their
tokenizers differ, bits per byte compares them.`,
		Example: `  hippo eval runs/tiny --baseline
  hippo eval runs/tiny --data notes.txt --stream --json
  hippo eval runs/tiny runs/tiny-2 models/h3-125m
  hippo eval models/h3-125m --data test.jsonl.zst --seq_len 2048 --batch_size 4
  hippo eval models/mine --data book.txt --valid_fraction 0.1 --baseline`,
		Args:              wantArgs(1, math.MaxInt),
		ValidArgsFunction: completeFolders,
	}
	config.Register(cmd.Flags(), &opt)
	completeConfig(cmd, opt)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := config.Load(&opt, config.Options{Flags: cmd.Flags()}); err != nil {
			return err
		}
		if len(args) > 1 {
			reports, err := evaluateAll(cmd.Context(), args, opt)
			if err != nil {
				return err
			}
			if opt.JSON {
				return printEvalsJSON(cmd.OutOrStdout(), reports)
			}
			return printEvals(cmd.OutOrStdout(), reports)
		}
		r, err := evaluate(cmd.Context(), args[0], opt)
		if err != nil {
			return err
		}
		if opt.JSON {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
		}
		return r.print(newTable(cmd.OutOrStdout()))
	}
	return cmd
}

// evalReport is what hippo eval prints.
type evalReport struct {
	Model  string `json:"model"`
	Params int    `json:"params"`
	Text   string `json:"text"`
	Stream bool   `json:"stream"`
	SeqLen int    `json:"seq_len"`

	Tokenizer string `json:"-"` // kind, for tables of several models
	train.EvalResult
	Words        int            `json:"words"`           // between white space
	WordPerplex  float64        `json:"word_perplexity"` // e^(loss·tokens/words)
	TokensPerSec float64        `json:"tokens_per_s"`
	Baseline     *data.Baseline `json:"baseline,omitempty"`
	CountedIn    int            `json:"baseline_train_tokens,omitempty"`
}

// evaluate measures one model.
func evaluate(ctx context.Context, name string, opt evalOptions) (r *evalReport, err error) {
	dir, err := modelPath(name)
	if err != nil {
		return nil, err
	}
	m, texts, err := openEval(ctx, dir, opt, nil, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, texts.close()) }()
	return texts.measure(ctx, m, dir)
}

// measure measures the model in dir on the text.
func (e *evalTexts) measure(ctx context.Context, m *hippo.Model, dir string) (*evalReport, error) {
	for _, note := range e.notes {
		fmt.Fprintln(os.Stderr, "note:", note)
	}
	e.notes = nil
	opt := e.opt
	run, out, err := runOf(dir)
	if err != nil {
		return nil, err
	}
	r := &evalReport{
		Model: m.Dir(), Params: m.NumParams(), Tokenizer: m.Tokenizer().Kind(), Text: e.name, Stream: opt.Stream,
		SeqLen: opt.SeqLen,
	}
	if r.SeqLen == 0 {
		r.SeqLen = defaultSeqLen
		if out != "" {
			r.SeqLen = run.Train.SeqLen
		}
	}
	p := newProgress("eval, tokens:")
	r.EvalResult, err = train.Evaluate(ctx, m.Net(), e.valid, train.EvalOptions{
		SeqLen: r.SeqLen, BatchSize: opt.BatchSize, Stream: opt.Stream, Keep: opt.Keep, Progress: p.update,
	})
	p.close()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.name, err)
	}
	if math.IsNaN(r.Loss) || math.IsInf(r.Loss, 0) {
		return nil, fmt.Errorf("%s: found the loss %v, want a finite one: the weights are ruined", r.Model, r.Loss)
	}
	r.TokensPerSec = rate(r.Tokens, r.Seconds)
	if r.Words, err = e.valid.Slice(1, e.valid.Len()).Words(m.Tokenizer()); err != nil {
		return nil, err
	}
	r.WordPerplex = r.PerWord(r.Words)
	if opt.Baseline {
		if e.baseline == nil {
			b, err := unlessDone(ctx, func() (data.Baseline, error) {
				return data.NGramBaseline(e.train, e.valid, m.Tokenizer().VocabSize())
			})
			if err != nil {
				return nil, err
			}
			e.baseline = &b
		}
		r.Baseline, r.CountedIn = e.baseline, e.train.Len()
	}
	return r, nil
}

func (r *evalReport) print(t table) error {
	t.row("model", "%s, %s parameters", r.Model, status.Count(float64(r.Params)))
	t.row("text", "%s", r.Text)
	mode := "windows of %d, each from an empty state"
	if r.Stream {
		mode = "one stream, in chunks of %d"
	}
	t.row("read as", mode, r.SeqLen)
	t.row("tokens", "%d, for %d bytes", r.Tokens, r.Bytes)
	t.row("loss", "%.4f nats per token", r.Loss)
	t.row("perplexity", "%.4g", r.Perplexity)
	t.row("perplexity per word", "%.4g, of %d words between white space", r.WordPerplex, r.Words)
	t.row("bits per byte", "%.4f", r.BitsByte)
	t.row("speed", "%s tokens/s", status.Count(r.TokensPerSec))
	if b := r.Baseline; b != nil {
		t.row("unigram loss", "%.4f nats per token, counted in %d tokens", b.Unigram, r.CountedIn)
		t.row("bigram loss", "%.4f nats per token", b.Bigram)
	}
	return t.flush()
}
