package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/changes"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// newExplainCompare returns the command explain compare, the old name of hippo diff --open and --out.
func newExplainCompare() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Show what moved between two models, such as two checkpoints of a run",
		Long: `Draw what moved between two models, checkpoints or runs. hippo diff A B does the same with --open or
--out.`,
		Example:           "  hippo explain compare runs/tiny/last runs/tiny/best",
		Args:              wantArgs(2, 2),
		ValidArgsFunction: completeArgs(completeFolders, completeFolders),
	}
	explainTextFlags(cmd, 512)
	return drawing(cmd, "compare", movedPage)
}

// side is one of two models that are compared.
type side struct {
	changes.Model
	language *explain.Language
	tok      tokenizer.Tokenizer // nil for the network of a task that predicts no tokens
	run      string              // file of its run's metrics, or ""
}

// openSide reads a model: the network of a task or a language model.
func openSide(name string) (s side, err error) {
	dir, n, err := networkNamed(name)
	if err != nil {
		return s, err
	}
	s.run = changes.MetricsOf(dir)
	if n != nil {
		s.Model = changes.Model{Name: name, Params: n, Backbone: n.Backbone}
		if s.language, err = explain.OfNetwork(n); err == nil {
			s.tok = tokenizer.IDs(n.Config.Vocab)
		}
		return s, nil // even a network that predicts no tokens has weights to compare
	}
	m, dir, err := release.LoadDir(dir)
	if err != nil {
		return s, err
	}
	s.Model, s.language = changes.Model{Name: name, Params: m, Backbone: m.Backbone}, explain.OfModel(m)
	s.tok, err = release.LoadTokenizer(dir, &m.Config)
	return s, err
}

// movedPage draws the page of differences between two models.
func movedPage(cmd *cobra.Command, names []string) (*figure.Page, error) {
	page := &figure.Page{Title: "What moved", Subtitle: fmt.Sprintf("A: %s · B: %s", names[0], names[1])}
	text := ""
	var err error
	if explainTextGiven(cmd) {
		if text, err = explainText(cmd, nil); err != nil {
			return nil, err
		}
	}
	var of [2]side
	for i, name := range names {
		if of[i], err = openSide(name); err != nil {
			return nil, err
		}
	}
	r, err := changes.Between(cmd.Context(), of[0].Model, of[1].Model)
	if err != nil {
		return nil, err
	}
	page.Figures = r.Figures()
	if of[0].run != "" && of[1].run != "" {
		var runs []changes.RunCurves
		for i, s := range of {
			c, err := changes.ReadCurves(s.run)
			if err != nil {
				return nil, err
			}
			c.Name = fmt.Sprintf("%c: %s", 'A'+i, s.Name)
			runs = append(runs, c)
			if of[0].run == of[1].run {
				break // two checkpoints of one run
			}
		}
		page.Figures = append(page.Figures, changes.CurvesFigure(runs...))
	}
	if text == "" {
		return page, nil
	}
	return page, predictions(cmd.Context(), of, text, tokensFlag(cmd), page)
}

// predictions adds to the page where two models predict a text differently.
func predictions(ctx context.Context, of [2]side, text string, most int, page *figure.Page) error {
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
	if err == nil {
		page.Figures = append(d.Figures(a), page.Figures...)
	}
	return err
}
