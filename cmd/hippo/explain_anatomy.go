package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/experiment"
	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/anatomy"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/train/text"
)

func newExplainModel() *cobra.Command {
	var out explainOutput
	var before string
	var start, timed bool
	var rate float64
	most := 0
	cmd := &cobra.Command{
		Use:   "model MODEL",
		Short: "Show kernels, poles, time constants, sizes and times of a model",
		Long: `Take the model in MODEL apart, of any family and any mixers, or the network of a task's run:

  architecture    as a diagram, with shared blocks and experts
  parameters      by layer and kind, and how large they are
  time            where it goes, measured on a short run
  time constants  of each layer in tokens, with --rate in seconds, too; and the steps dt
  kernels         of the state-space systems and filters, in time and frequency
  poles           of A, and of what multiplies the state from token to token, with the unit circle

Decays of selective mixers (Mamba, Mamba-2, RG-LRU) depend on the token: what is shown is their mean over a short run on
--text or --file, on random tokens, or on white noise. --before DIR or --start puts another model beside it: an earlier
checkpoint, or the random weights that training began with, made again from the run's configuration and seed.`,
		Example: `  hippo explain model runs/tiny --open
  hippo explain model runs/tiny --start --out before-after.html
  hippo explain model runs/tiny/best --before runs/tiny/last
  hippo explain model runs/task/digits/s4-seed1 --rate 8000`,
		Args:              wantArgs(1, 1),
		ValidArgsFunction: completeArgs(completeFolders),
	}
	out.register(cmd, "model")
	cmd.Flags().StringVar(&before, "before", "", "another model of the same shape, to show beside it")
	cmd.Flags().BoolVar(&start, "start", false, "show beside it the weights that training began with")
	cmd.Flags().BoolVar(&timed, "time", true, "measure where the time goes")
	cmd.Flags().Float64Var(&rate, "rate", 0, "positions in a second, for time constants in seconds")
	explainTextFlags(cmd)
	cmd.Flags().IntVar(&most, "tokens", 1024, "the first so many tokens of the text; 0 for all")
	completeFlag(cmd, "before", completeFolders)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		if before != "" && start {
			return errors.New("found both --before and --start, want one of them")
		}
		if !(rate >= 0) || rate > 1e12 {
			return fmt.Errorf("--rate: found %g, want 0 or more", rate)
		}
		run := shortRun{most: most}
		if explainTextGiven(cmd) {
			var err error
			if run.text, err = explainText(cmd, nil); err != nil {
				return err
			}
		}
		now, err := subjectIn(args[0], &run, false)
		if err != nil {
			return err
		}
		a, err := now.Examine(cmd.Context(), "now", timed)
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		var b *anatomy.Report
		if before != "" || start {
			old := before
			if start {
				old = args[0]
			}
			s, err := subjectIn(old, &run, start)
			if err != nil {
				return err
			}
			if b, err = s.Examine(cmd.Context(), "before", false); err != nil {
				return fmt.Errorf("%s: %w", old, err)
			}
			if err := a.Comparable(b); err != nil {
				return fmt.Errorf("%s: %w", old, err)
			}
		}
		page := anatomy.Page(a, b, rate)
		page.Subtitle, page.Command = args[0], commandLine(os.Args)
		if run.note != "" {
			page.Notes = append(page.Notes, run.note)
		}
		return out.write(cmd, page)
	}
	return cmd
}

// shortRun is what the text of a short run is, "" for random tokens, and how many tokens of it are read at most.
type shortRun struct {
	text string
	most int
	note string // what of the text was left out
}

// subjectIn is the model or network in a folder, or, for start, the weights that its run began with, made again.
func subjectIn(name string, run *shortRun, start bool) (*anatomy.Subject, error) {
	dir, n, err := networkNamed(name)
	if err != nil {
		return nil, err
	}
	if n != nil {
		if run.text != "" {
			return nil, fmt.Errorf("%s: found the network of a task, which reads no text", name)
		}
		if start {
			err = networkAtStart(name, dir, n)
		}
		return anatomy.OfNetwork(n), err
	}
	var init func(m *model.Model)
	if start {
		of, found, err := text.RunOf(dir)
		switch {
		case err != nil:
			return nil, err
		case found == "":
			return nil, fmt.Errorf("%s: found no run of hippo train, whose seed tells the weights that it began with; "+
				"want --before DIR", name)
		case of.Init != "":
			return subjectIn(of.Init, run, false)
		}
		init = func(m *model.Model) { m.Init(of.Seed) }
	}
	m, dir, err := release.LoadDir(dir)
	if err != nil {
		return nil, err
	}
	if init != nil {
		init(m)
	}
	return subjectOf(m, dir, run)
}

// networkAtStart gives a network in a folder the weights again that its run began with.
func networkAtStart(name, dir string, n *model.Network) error {
	r, err := experiment.ReadResult(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: found no result of a run, which tells the seed; want --before DIR", name)
	}
	if err == nil {
		n.Init(r.Seed)
	}
	return err
}

// subjectOf is a language model with the tokens of a short run.
func subjectOf(m *model.Model, dir string, run *shortRun) (*anatomy.Subject, error) {
	if run.text == "" {
		return anatomy.OfModel(m, nil), nil
	}
	tok, err := release.LoadTokenizer(dir, &m.Config)
	if err != nil {
		return nil, err
	}
	ids, note, err := firstTokens(tok, run.text, taken(explain.OfModel(m), run.most))
	if run.note = note; err != nil {
		return nil, err
	}
	return anatomy.OfModel(m, ids), nil
}
