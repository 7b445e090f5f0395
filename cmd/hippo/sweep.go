package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/sweep"
	"github.com/hippo-ssm/hippo/train"
)

func newSweep() *cobra.Command {
	p := sweep.Plan{Trials: 12, Eta: 3, Seed: 1}
	var out string
	cmd := &cobra.Command{
		Use:   "sweep COMMAND...",
		Short: "Search settings: train with random ones, and rank them",
		Long: `Search the settings of hippo train, fit, forecast or task run. COMMAND is such a command with its flags,
after --. Each trial runs it with random values of the settings of --over, in a folder of its own. Trials are ranked by
their best score on validation data. --over takes values or a range:

  --over 'model.layers=s4d*2|h3*2'    one of these
  --over optim.lr=1e-4..1e-2          a number between them; by its logarithm if the ends are ten times apart
  --over model.d_model=16..64         a whole number, as both ends are

--halving SETTING=VALUE is successive halving: all trials train with a small share of the budget, the best third of them
with three times as much, and so on; the last ones with VALUE. Every round trains from the start, so that the learning
rate follows its schedule to the end.

Start the same command as often as you like, on machines that share the folder of --out: each process takes trials
that no other has. Ctrl-C saves; the same command resumes, and a larger --trials adds trials (without --halving).`,
		Example: `  hippo sweep --over optim.lr=1e-4..1e-1 --trials 8 -- train --data book.txt --steps 300
  hippo sweep --over 'model.layers=s4d*2|h3*2' --over model.d_model=16..64 -- fit machine.csv --target state
  hippo sweep --over optim.lr=1e-4..1e-1 --halving epochs=30 --trials 27 -- forecast sales.csv --target sold`,
		Args: wantArgs(1, 1<<30),
	}
	f := cmd.Flags()
	f.StringArrayVar(&p.Over, "over", nil, "a setting and its values or range; once for each setting")
	f.IntVar(&p.Trials, "trials", p.Trials, "settings to try")
	f.StringVar(&p.Halving, "halving", "", "setting that is the budget, and its value for a whole run: epochs=30")
	f.IntVar(&p.Eta, "eta", p.Eta, "of this many trials of a round one takes part in the next")
	f.Uint64Var(&p.Seed, "seed", p.Seed, "seed of the random settings")
	f.StringVar(&out, "out", "runs/sweep", "folder of the sweep")
	jsonFlag(cmd, oneObject)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p.Command = args
		if err := checkTrials(cmd.Root(), &p); err != nil {
			return err
		}
		r, held, err := sweep.Run(cmd.Context(), out, p, trial(args), sweep.Events{
			Trial: func(t sweep.Trial, of int) {
				fmt.Fprintf(os.Stderr, "trial %d, round %d (%d trials in all): hippo %s\n", t.Number, t.Round, of,
					strings.Join(trialArgs(args, t), " "))
			},
			Wait: func(held []*disk.LockedError) {
				for _, h := range held {
					fmt.Fprintf(os.Stderr, "waiting for %s, from %s\n", h.Dir, h.Holder)
				}
			},
		})
		if err != nil {
			if cmd.Context().Err() != nil {
				return resumable()
			}
			return err
		}
		if err := printHeld(held); err != nil || r.Last() == 0 {
			return err
		}
		if err := r.Draw(out); err != nil {
			return err
		}
		if err := show(cmd, r, r.Print); err != nil {
			return err
		}
		best := r.Ranking(r.Last())[0]
		fmt.Fprintf(os.Stderr, "the best is trial %d, in %s; pictures: %s/%s\n", best.Number, best.Out, out,
			sweep.PicturePage)
		return nil
	}
	return cmd
}

// checkTrials returns an error if the command of the trials or the names of its settings are wrong.
func checkTrials(root *cobra.Command, p *sweep.Plan) error {
	trained, rest, err := root.Find(p.Command)
	if path := strings.TrimPrefix(trained.CommandPath(), "hippo "); err != nil ||
		!slices.Contains([]string{"train", "fit", "forecast", "task run"}, path) {
		return fmt.Errorf("found the command %q, want train, fit, forecast or task run, after --: hippo sweep --over "+
			"SETTING=VALUES -- fit DATA", config.Quote(strings.Join(p.Command, " ")))
	}
	if slices.ContainsFunc(rest, func(arg string) bool { return arg == "--out" || strings.HasPrefix(arg, "--out=") }) {
		return errors.New("found --out in the command of trials, want it before --: each trial has its folder there")
	}
	over := p.Over
	if p.Halving != "" {
		over = append(slices.Clone(over), p.Halving)
	}
	for _, text := range over {
		name, _, _ := strings.Cut(strings.TrimLeft(text, "-"), "=")
		if trained.Flags().Lookup(name) == nil {
			var known []string
			trained.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
			return fmt.Errorf("%s: found no such setting of %s%s", name, trained.CommandPath(),
				config.DidYouMean(name, known))
		}
	}
	return nil
}

// trialArgs returns the arguments of the command of a trial.
func trialArgs(args []string, t sweep.Trial) []string {
	if args[0] == "train" && disk.Exists(t.Out+"/"+model.LastDir) { // it was interrupted
		return []string{"train", "--resume", t.Out}
	}
	all := slices.Clone(args)
	for _, s := range t.Settings {
		all = append(all, "--"+s.Name+"="+s.Value)
	}
	if t.Budget != nil {
		all = append(all, "--"+t.Budget.Name+"="+t.Budget.Value)
	}
	return append(all, "--out="+t.Out)
}

// trial returns a runner of trials, which executes the command of a trial in this process.
func trial(args []string) sweep.Runner {
	return func(ctx context.Context, t sweep.Trial) (train.Score, error) {
		root := newRoot()
		root.SetArgs(trialArgs(args, t))
		root.SetOut(io.Discard) // only the score is needed
		if err := root.ExecuteContext(ctx); err != nil {
			return train.Score{}, err
		}
		best, err := train.BestOf(t.Out)
		return best.Valid, err
	}
}
