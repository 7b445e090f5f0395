package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/experiment"
	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/anatomy"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/train/text"
)

func newExplainModel() *cobra.Command {
	var before string
	var start, timed bool
	var rate float64
	cmd := &cobra.Command{
		Use:   "model MODEL",
		Short: "Show kernels, poles, time constants, sizes and times of a model",
		Long: `Take the model in MODEL apart, of any family and any mixers, or the network of a task's run:

  architecture    as a diagram, with shared blocks and experts
  parameters      by layer and kind, and how large they are
  time            by layer, measured on a short run
  time constants  of each layer in tokens, with --rate in seconds, too; and the steps dt
  kernels         of the state-space systems and filters, in time and frequency
  poles           of A, and of what multiplies the state from token to token, with the unit circle

Decays of selective mixers (Mamba, Mamba-2, RG-LRU) depend on the token: the page shows their mean over a short run on
--text or --file, on random tokens, or on white noise. --before DIR or --start adds another model: an earlier
checkpoint, or the random weights that training started with, made again from the run's configuration and seed.`,
		Example: `  hippo explain model runs/tiny --open
  hippo explain model runs/tiny --start --out before-after.html
  hippo explain model runs/tiny/best --before runs/tiny/last
  hippo explain model runs/task/digits/s4-seed1 --rate 8000`,
		Args:              wantArgs(1, 1),
		ValidArgsFunction: completeArgs(completeFolders),
	}
	f := cmd.Flags()
	f.StringVar(&before, "before", "", "another model of the same shape, to compare with")
	f.BoolVar(&start, "start", false, "compare with the weights that training started with")
	f.BoolVar(&timed, "time", true, "measure where the time is spent")
	f.Float64Var(&rate, "rate", 0, "positions in a second, for time constants in seconds")
	explainTextFlags(cmd, 1024)
	completeFlag(cmd, "before", completeFolders)
	return drawing(cmd, "model", func(cmd *cobra.Command, args []string) (_ *figure.Page, err error) {
		if before != "" && start {
			return nil, errors.New("found both --before and --start, want one of them")
		}
		if !(rate >= 0) || rate > 1e12 {
			return nil, fmt.Errorf("--rate: found %g, want 0 or more", rate)
		}
		run := shortRun{most: tokensFlag(cmd)}
		if explainTextGiven(cmd) {
			if run.text, err = explainText(cmd, nil); err != nil {
				return nil, err
			}
		}
		report := func(name, label string, start, timed bool) (*anatomy.Report, error) {
			s, err := subjectIn(name, &run, start)
			if err != nil {
				return nil, err
			}
			r, err := s.Examine(cmd.Context(), label, timed)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			return r, nil
		}
		a, err := report(args[0], "now", false, timed)
		if err != nil {
			return nil, err
		}
		var b *anatomy.Report
		if before != "" || start {
			old := cmp.Or(before, args[0])
			if b, err = report(old, "before", start, false); err != nil {
				return nil, err
			}
			if err := a.Comparable(b); err != nil {
				return nil, fmt.Errorf("%s: %w", old, err)
			}
		}
		page := anatomy.Page(a, b, rate)
		page.Subtitle = args[0]
		if run.note != "" {
			page.Notes = append(page.Notes, run.note)
		}
		return page, nil
	})
}

// shortRun is a text that the model reads in a short run.
type shortRun struct {
	text string // "" for random tokens
	most int    // maximum number of tokens to read
	note string // tells if a part of the text was left out
}

// subjectIn returns the model or network with a name. If start is set, it has the weights that its run started with.
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
			return nil, fmt.Errorf("%s: found no run of hippo train, whose seed makes the first weights again; want "+
				"--before DIR", name)
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

// networkAtStart sets the network in dir to the weights that its run started with.
func networkAtStart(name, dir string, n *model.Network) error {
	r, err := experiment.ReadResult(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: found no result of a run, which holds the seed; want --before DIR", name)
	}
	if err == nil {
		n.Init(r.Seed)
	}
	return err
}

// subjectOf returns a language model together with the tokens of a short run.
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
