package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/changes"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
)

func newExplainCompare() *cobra.Command {
	var out explainOutput
	most := 0
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Show what moved between two models, such as two checkpoints of a run",
		Long: `Show what moved between two models, checkpoints or runs: how far and by which angle each parameter, by
layer and kind; poles, steps dt, time constants and kernels before and after; the losses of both runs, where both are
folders of runs; and, with --text or --file, where the predictions differ. hippo diff tells whether weights are equal.`,
		Example: `  hippo explain compare runs/tiny/last runs/tiny/best
  hippo explain compare models/h3-125m runs/tuned --text "Call me Ishmael."
  hippo explain compare runs/a runs/b --out compare.json`,
		Args:              wantArgs(2, 2),
		ValidArgsFunction: completeArgs(completeFolders, completeFolders),
	}
	out.register(cmd, "compare")
	explainTextFlags(cmd)
	cmd.Flags().IntVar(&most, "tokens", 512, "the first so many tokens of the text; 0 for all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		page := &figure.Page{Title: "What moved", Subtitle: fmt.Sprintf("A: %s · B: %s", args[0], args[1]),
			Command: commandLine(os.Args)}
		text := ""
		if explainTextGiven(cmd) {
			var err error
			if text, err = explainText(cmd, nil); err != nil {
				return err
			}
		}
		if err := compareModels(cmd.Context(), args, text, most, page); err != nil {
			return err
		}
		return out.write(cmd, page)
	}
	return cmd
}

// weighed is a model of any kind.
type weighed struct {
	changes.Model
	language *explain.Language
	tok      tokenizer.Tokenizer // nil for the network of a task
	run      string              // the file of its run's metrics, "" for none
}

// openWeighed reads a model of any kind.
func openWeighed(name string) (w weighed, err error) {
	dir, n, err := networkNamed(name)
	if err != nil {
		return w, err
	}
	w.run = metricsOf(dir)
	if n != nil {
		w.Model = changes.Model{Name: name, Params: n, Backbone: n.Backbone}
		if w.language, err = explain.OfNetwork(n); err == nil {
			w.tok = tokenizer.IDs(n.Config.Vocab)
		}
		return w, nil // one that predicts no tokens has weights all the same
	}
	m, dir, err := release.LoadDir(dir)
	if err != nil {
		return w, err
	}
	w.Model, w.language = changes.Model{Name: name, Params: m, Backbone: m.Backbone}, explain.OfModel(m)
	w.tok, err = release.LoadTokenizer(dir, &m.Config)
	return w, err
}

// compareModels makes the figures of two models.
func compareModels(ctx context.Context, names []string, text string, most int, page *figure.Page) error {
	var of [2]weighed
	for i, name := range names {
		var err error
		if of[i], err = openWeighed(name); err != nil {
			return err
		}
	}
	r, err := changes.Between(ctx, of[0].Model, of[1].Model)
	if err != nil {
		return err
	}
	page.Figures = r.Figures()
	if of[0].run != "" && of[1].run != "" {
		var runs []changes.RunCurves
		for i, w := range of {
			c, err := readCurves(w.run)
			if err != nil {
				return err
			}
			c.Name = fmt.Sprintf("%c: %s", 'A'+i, names[i])
			runs = append(runs, c)
			if of[0].run == of[1].run {
				break // two checkpoints of one run
			}
		}
		page.Figures = append(page.Figures, changes.CurvesFigure(runs...))
	}
	if text == "" {
		return nil
	}
	a, b := of[0].tok, of[1].tok
	switch {
	case a == nil || b == nil:
		return errors.New("--text: found a network that predicts no tokens, want two language models")
	case a.Fingerprint() != b.Fingerprint():
		return errors.New("--text: found two models of different tokenizers, want one to compare predictions of a text")
	}
	ids, note, err := firstTokens(a, text, taken(of[0].language, most))
	if err != nil {
		return err
	}
	if note != "" {
		page.Notes = append(page.Notes, note)
	}
	d, err := changes.Differ(ctx, of[0].language, of[1].language, ids)
	if err != nil {
		return err
	}
	page.Figures = append(d.Figures(a), page.Figures...)
	return nil
}

// metricsOf is the file of the metrics of the run that a folder is of: the run's own, or that of its best or last
// checkpoint. It is empty where there is none.
func metricsOf(dir string) string {
	for _, at := range []string{dir, filepath.Dir(filepath.Clean(dir))} {
		path := filepath.Join(at, "metrics.jsonl")
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
		if base := filepath.Base(dir); base != model.BestDir && base != model.LastDir {
			break
		}
	}
	return ""
}

// readCurves reads the losses of a run's metrics, a line at a time. A last line that is torn does not count.
func readCurves(path string) (c changes.RunCurves, err error) {
	f, err := os.Open(path)
	if err != nil {
		return c, err
	}
	defer f.Close()
	lines := bufio.NewReader(io.LimitReader(f, maxMetrics))
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return c, nil
		}
		if err != nil {
			return c, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		var x struct {
			Step  *float64 `json:"step"`
			Loss  *float64 `json:"loss"`
			Valid *float64 `json:"valid_loss"`
		}
		if err := json.Unmarshal(line, &x); err != nil || x.Step == nil {
			return c, fmt.Errorf("%s:%d: found %.60q, want a JSON object with a step", path, n, line)
		}
		if x.Loss != nil {
			c.Train.Step, c.Train.Loss = append(c.Train.Step, *x.Step), append(c.Train.Loss, *x.Loss)
		}
		if x.Valid != nil {
			c.Valid.Step, c.Valid.Loss = append(c.Valid.Step, *x.Step), append(c.Valid.Loss, *x.Valid)
		}
	}
}

// maxMetrics bounds what is read of a run's metrics: a line for each of a million steps.
const maxMetrics = 256 << 20
