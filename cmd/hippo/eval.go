package main

import (
	"cmp"
	"context"
	"math"
	"os"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/train/text"
)

// evalOptions holds the flags of hippo eval.
type evalOptions struct {
	text.ModelEvalOptions

	Adapter   string `json:"adapter" help:"folder of an adapter for each DIR"`
	Precision string `json:"precision" enum:"stored,float32,bf16,int8,int4,int4min" help:"precision of the weights"`
	Device    string `json:"device" help:"where to compute: cpu, gpu, gpu:1 of hippo bench devices, auto"`
	States    string `json:"state_precision" enum:"float32,bf16" help:"of states; with drift not of the first DIR"`
	JSON      bool   `json:"json" help:"print a JSON object"`
}

// newEvalOptions returns the default options.
func newEvalOptions() evalOptions {
	return evalOptions{
		ModelEvalOptions: text.ModelEvalOptions{
			TextField: data.DefaultTextField, Cache: os.Getenv("HIPPO_CACHE"),
			CacheLimit: os.Getenv("HIPPO_CACHE_LIMIT"), BatchSize: 8,
		},
		Precision: hippo.Stored, States: statePrecisions[0], Device: onCPU,
	}
}

func newEval() *cobra.Command {
	opt := newEvalOptions()
	cmd := &cobra.Command{
		Use:   "eval DIR...",
		Short: "Measure how well a model predicts a text",
		Long: `Measure how well the model in DIR, or the published one of that name, predicts a text: the mean loss in
nats per token, its exponential (perplexity) and bits per byte of text, which compare models with different tokenizers.
The text is read in windows that each start from an empty state, or with --stream from start to end with the state
carried along.

The folder of a training run is measured on the run's own validation part, unless --data names a text; any other model
on --data, or on the built-in text. --baseline adds the losses of counting on the same text: a unigram and a bigram
model (interpolated, smoothed) of the same tokens. They are counted in --train_data; else, with --valid_fraction, in the
part of the text that is not measured; else in the training part of the run.

Several models are measured on the same text, that of the first, and printed as a table, the best first. If their
tokenizers differ, bits per byte compares them.

--per gpt2 adds the perplexity per token of GPT-2, or of another tokenizer, whatever the model's tokens are: models of
bytes then compare with published ones.

--positions N adds the losses by position in the window: of its first N tokens, of those up to 2N, up to 4N, and so on.
With windows longer than in training (--seq_len) they show how far a model holds what it has learned.

With --drift N all models read the first N tokens of the text with their states carried from the start, and the others,
such as the first with rounded weights, are compared with it: how far logits, probabilities, losses and states are off
up to 1,000 tokens, from there to 3,000, and so on. Where that grows, errors of the states add up.`,
		Example: `  hippo eval runs/tiny --baseline
  hippo eval runs/tiny --data notes.txt --stream --json
  hippo eval runs/tiny runs/tiny-2 models/h3-125m
  hippo eval runs/tiny --adapter runs/letters --data letters.txt
  hippo eval models/h3-125m --data test.jsonl.zst --seq_len 2048 --batch_size 4
  hippo eval models/mine --data book.txt --valid_fraction 0.1 --baseline
  hippo eval runs/tiny --seq_len 4096 --positions 256
  hippo eval models/mine models/mine-8bit models/mine-4bit --data book.txt --drift 100000`,
		Args:              wantArgs(1, math.MaxInt),
		ValidArgsFunction: completeFolders,
	}
	return configured(cmd, &opt, func(cmd *cobra.Command, args []string) error {
		if opt.Drift > 0 {
			e, dirs, err := evaluation(args, &opt)
			if err != nil {
				return err
			}
			reports, err := e.Compare(cmd.Context(), dirs)
			if err != nil {
				return err
			}
			return showList(cmd, reports, text.PrintDrift)
		}
		reports, err := evaluateAll(cmd.Context(), args, &opt)
		if err != nil {
			return err
		}
		return showList(cmd, reports, text.PrintReports)
	})
}

// evaluateAll measures the named models.
func evaluateAll(ctx context.Context, names []string, opt *evalOptions) ([]*text.ModelReport, error) {
	e, dirs, err := evaluation(names, opt)
	if err != nil {
		return nil, err
	}
	return e.Run(ctx, dirs)
}

// evaluation prepares to measure the named models and returns their folders.
func evaluation(names []string, opt *evalOptions) (*text.ModelEval, []string, error) {
	var p config.Problems
	var dirs []string
	for _, name := range names {
		dir, err := modelPath(name)
		p.Add(err)
		dirs = append(dirs, dir)
	}
	on, err := onDevice(opt.Device)
	if err != nil {
		return nil, nil, err
	}
	loaded := 0
	e := &text.ModelEval{
		Options: opt.ModelEvalOptions,
		Load: func(dir string) (*text.LoadedModel, error) {
			states := opt.States
			if loaded++; loaded == 1 && opt.Drift > 0 {
				states = statePrecisions[0]
			}
			m, err := loadModel(dir, opt.Adapter, hippo.Precision(opt.Precision), on, hippo.StatePrecision(states))
			if err != nil {
				return nil, err
			}
			return &text.LoadedModel{Dir: cmp.Or(m.AdapterDir(), m.Dir()), Net: m.Net(), Tokenizer: m.Tokenizer()}, nil
		},
		Note:     note,
		Progress: func() (func(done, total int), func()) { return newProgress("eval, tokens:").functions() },
	}
	return e, dirs, p.Err()
}
