package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/compare"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/text"
)

// compareOptions holds the flags of hippo compare.
type compareOptions struct {
	compare.Options
	Threads  int  `json:"threads" min:"0" help:"cores to use; 0 for all"`
	JSON     bool `json:"json" help:"print a JSON object"`
	Markdown bool `json:"markdown" help:"print a table in Markdown"`
}

func newCompare() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compare MODEL MODEL...",
		Short: "Train models of equal size for equal time, and compare their losses",
		Long: `Train models of an equal number of parameters for an equal time on the same text, one after another, and
print a table of how well they predict the validation text, next to the losses of counting unigrams and bigrams. hippo
diff compares trained models.

A MODEL is a preset, a glob over presets ('*-tiny'), a mixer (its tiny preset), a list of layers in the shape of the
preset tiny ('h3*2,attention,h3*2'), a YAML file of settings for train, or init:DIR, which continues from the model in
DIR with a learning rate that suits it. Learning rate, batch and so on are those of the preset or file unless --set
changes them; text, tokenizer and precision are those of the first model. The width of each model is changed so that its
parameters come nearest to those of the first, or to --params; one that is within 5 % is not changed, or with --equal 2
within 2 %. Where steps of the width are too coarse, the inner width of MLPs is changed as well.

--test scores the finished models on another text: bits per byte, and perplexity by word and by token of GPT-2.

--clock cpu measures the time of training by the CPU time of the process divided by the cores in use, so that other work
of the machine changes little. Evaluations do not count. With --out, Ctrl-C keeps finished runs, and the same command
resumes; several at once, on machines that share the folder, each take a run that no other has. Without it only the
table remains.`,
		Example: `  hippo compare tiny attention
  hippo compare '*-tiny' --time 2m --markdown
  hippo compare init:runs/tiny tiny --data mine.txt            # does it pay to go on from a model?
  hippo compare 'h3*2,attention,h3*2' mamba --time 10m --clock cpu --seeds 3 --out runs/compare
  hippo compare h3 gss --data wiki.txt --tokenizer gpt2 --params 2000000 --set optim.lr=1e-3`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("found no model, want at least 2 (see hippo compare --help)")
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return append(text.Presets(), model.MixerNames()...), cobra.ShellCompDirectiveDefault
		},
	}
	first, err := text.Preset("tiny")
	if err != nil {
		panic(err) // the preset is part of the program
	}
	first.Cache, first.CacheLimit = os.Getenv("HIPPO_CACHE"), os.Getenv("HIPPO_CACHE_LIMIT")
	defaults := compareOptions{Options: compare.DefaultOptions(first)}
	config.Register(cmd.Flags(), &defaults)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var p config.Problems
		models, err := compare.Entrants(args)
		p.Add(err)
		opt := defaults
		if len(models) > 0 {
			opt.Options = compare.DefaultOptions(models[0].Config)
		}
		if opt.Cache == "" {
			opt.Cache = defaults.Cache
		}
		if opt.CacheLimit == "" {
			opt.CacheLimit = defaults.CacheLimit
		}
		p.Add(config.Load(&opt, config.Options{Flags: cmd.Flags()}))
		if opt.JSON && opt.Markdown {
			p.Add(errors.New("found --json together with --markdown, want one of them"))
		}
		if err == nil {
			p.Add(opt.Check(models))
		} else {
			p.Add(opt.Check(nil))
		}
		if err := p.Err(); err != nil {
			return err
		}
		if opt.Threads > 0 {
			runtime.GOMAXPROCS(opt.Threads)
		}
		return runComparison(cmd, models, opt)
	}
	return cmd
}

func runComparison(cmd *cobra.Command, models []compare.Entrant, opt compareOptions) error {
	c, err := compare.New(models, opt.Options)
	if err != nil {
		return err
	}
	ctx, stop := whileRead(cmd.Context())
	defer stop()
	text, err := unlessDone(ctx, func() (compare.Text, error) { return c.Text(ctx) })
	if err != nil {
		return err
	}
	p := status.New(os.Stderr, 10*time.Second)
	runs, held, err := c.Run(ctx, watchComparison(p, c))
	p.Close()
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		rest := "nothing is saved without --out"
		if opt.Out != "" {
			rest = "the same command resumes"
		}
		fmt.Fprintf(os.Stderr, "interrupted; %d of %d runs are done; %s\n", len(runs), c.Runs(), rest)
		return errInterrupted
	}
	if err != nil {
		return err
	}
	r := c.Report(text, runs)
	switch {
	case opt.JSON:
		err = plainJSON(cmd.OutOrStdout()).Encode(r)
	case opt.Markdown:
		err = r.PrintMarkdown(cmd.OutOrStdout())
	default:
		err = r.Print(cmd.OutOrStdout())
	}
	return errors.Join(err, printHeld(held))
}

// watchComparison returns events that print the progress and the result of each run.
func watchComparison(p *status.Printer, c *compare.Comparison) compare.Events {
	return compare.Events{
		Run: func(name string, seed uint64, number, runs int) train.Events {
			i := slices.IndexFunc(c.Models, func(e compare.Entrant) bool { return e.Name == name })
			p.Printf("run %d of %d: %s, %s parameters, seed %d\n", number, runs, name,
				status.Count(c.Params[i]), seed)
			w := printing(p)
			return train.Events{Step: w.Step, Note: w.Note}
		},
		Finished: func(r compare.Result, before bool) {
			switch {
			case r.Diverged != "":
				p.Printf("%s: diverged at %s\n", r.Model, r.Diverged)
			case before:
				p.Printf("%s: done before, seed %d\n", r.Model, r.Seed)
			default:
				p.Printf("%s: validation loss %.4f after %d steps\n", r.Model, *r.ValidLoss, r.Steps)
			}
		},
	}
}
