package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/explain/lens"
)

// lensFlags holds the flags of hippo explain lens.
type lensFlags struct {
	ablate, patch []string
	watch         []string
	mean          bool
	sweep, states bool
	at            string
	heads         int
}

func newExplainLens() *cobra.Command {
	var f lensFlags
	cmd := &cobra.Command{
		Use:   "lens MODEL TEXT",
		Short: "Show predictions after every layer, and what happens without a part of the model",
		Long: `Read TEXT with the model and show what it would predict if it ended after each of its layers (the logit
lens: the stream after a layer, through the final norm and the unembedding), and how the log-probability of the true
next token changes without each layer in turn.

With --ablate or --patch show instead what the model predicts before and after a change:

  --ablate layer3           without what layer 3 adds to the stream: zero, or --mean for its mean over the text
  --ablate layer3.head2     without a head; also layer3.channel17, layer3.mixer, layer3.mlp, and in a layer of several
                            mixers layer3.attention.head2
  --ablate layer3.state     layer 3 carries nothing from token to token
  --patch layer3=TEXT2      with what layer 3 adds in the run of another text, token for token
  --patch layer3.state=TEXT2  before the last token, with the state of the other text before its last token

--at selects the token: its number from 0, last or all. Layers are counted from 0. MODEL may also be the folder of a
task's run, whose tokens are numbers: TEXT is "3 1 4".`,
		Example: `  hippo explain lens runs/tiny "Call me Ishmael. Some years ago"
  hippo explain lens models/h3-125m "The capital of France is" --ablate layer8 --ablate layer9.head2
  hippo explain lens models/h3-125m "The capital of France is" --watch " Paris" --watch " Rome"
  hippo explain lens models/h3-125m "The capital of France is" --patch layer6.state="The capital of Italy is"
  hippo explain lens models/h3-125m --file chapter1.txt --heads 6 --out lens.json`,
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.ablate, "ablate", nil, "part to remove: layerN, layerN.headN, layerN.channelN, "+
		"layerN.mixer, layerN.mlp, layerN.state; repeat for several")
	flags.StringArrayVar(&f.patch, "patch", nil, "PART=TEXT2: part to take from the run of another text; repeat for "+
		"several")
	flags.BoolVar(&f.mean, "mean", false, "replace what is ablated by its mean over the text, not by zero")
	flags.StringVar(&f.at, "at", "", "token to change it at: its number from 0, last or all (default all; last for "+
		"the patch of a state)")
	flags.StringArrayVar(&f.watch, "watch", nil, "text whose first token to follow, such as \" Paris\"; repeat for "+
		"several")
	flags.BoolVar(&f.sweep, "sweep", true, "without --ablate and --patch, remove each layer in turn")
	flags.BoolVar(&f.states, "states", false, "remove the state of each layer in turn")
	flags.IntVar(&f.heads, "heads", -1, "layer whose heads (or channels) to remove in turn; -1 for none")
	var c lens.Changes
	check := func() (err error) {
		c, err = f.changes()
		return err
	}
	return drawText(cmd, 512, check, func(cmd *cobra.Command, v *textView) (*figure.Page, error) {
		figures, err := f.figures(cmd.Context(), v, c)
		return &figure.Page{Title: "Lens", Figures: figures}, err
	})
}

// changes returns the changes that --ablate and --patch select. The texts of the patches are not tokenized yet.
func (f *lensFlags) changes() (lens.Changes, error) {
	c := lens.Changes{Mean: f.mean, At: f.at}
	for _, part := range f.ablate {
		t, err := explain.ParseTarget(part)
		if err != nil {
			return c, fmt.Errorf("--ablate: %w", err)
		}
		c.Ablate = append(c.Ablate, t)
	}
	for _, patch := range f.patch {
		part, _, ok := strings.Cut(patch, "=")
		if !ok {
			return c, fmt.Errorf("--patch: found %q, want PART=TEXT, such as layer3.state=\"Call me\"", patch)
		}
		t, err := explain.ParseTarget(part)
		if err != nil {
			return c, fmt.Errorf("--patch: %w", err)
		}
		c.Patch = append(c.Patch, lens.Patch{Target: t})
	}
	switch {
	case f.mean && len(f.ablate) == 0:
		return c, errors.New("--mean: found nothing to ablate, want --ablate, too")
	case f.at != "" && len(f.ablate)+len(f.patch) == 0:
		return c, errors.New("--at: found nothing to change there, want --ablate or --patch, too")
	}
	return c, nil
}

// figures draws the figures that the flags select.
func (f *lensFlags) figures(ctx context.Context, v *textView, c lens.Changes) (figures []*figure.Figure, err error) {
	g, tok := v.language, v.tok
	for _, text := range f.watch {
		token, err := tok.Encode(nil, []byte(text))
		if err == nil && len(token) == 0 {
			err = errors.New("found an empty text, want one with a token")
		}
		if err != nil {
			return nil, fmt.Errorf("--watch: %w", err)
		}
		c.Watched = append(c.Watched, token[0])
	}
	// swept adds figures of the effect of leaving out each part in turn.
	swept := func(parts []explain.Target, of string) error {
		p := newProgress("without each " + of + " in turn:")
		r, err := lens.Sweep(ctx, g, v.ids, parts, p.update)
		p.close()
		if err == nil {
			figures = append(figures, r.Figures("lens-without-"+of, of, tok)...)
		}
		return err
	}
	if len(c.Ablate)+len(c.Patch) > 0 {
		for i, patch := range f.patch {
			_, text, _ := strings.Cut(patch, "=")
			if c.Patch[i].IDs, err = tok.Encode(nil, []byte(text)); err != nil {
				return nil, fmt.Errorf("--patch: %w", err)
			}
		}
		r, err := lens.Change(ctx, g, v.ids, c)
		if err != nil {
			return nil, err
		}
		figures = append(figures, r.Figures(tok)...)
	} else {
		r, err := lens.Of(ctx, g, v.ids, c.Watched...)
		if err != nil {
			return nil, err
		}
		figures = append(figures, r.Figures(tok)...)
		if f.sweep && len(v.ids) > 1 {
			if err := swept(g.LayerTargets(), "layer"); err != nil {
				return nil, err
			}
		}
	}
	if f.states {
		states := g.StateTargets()
		if len(states) == 0 {
			return nil, errors.New("--states: found no layer that carries a state, want a causal model")
		}
		if err := swept(states, "state"); err != nil {
			return nil, err
		}
	}
	if f.heads < 0 {
		return figures, nil
	}
	heads, err := g.HeadTargets(f.heads)
	if err != nil {
		return nil, fmt.Errorf("--heads: %w", err)
	}
	err = swept(heads, string(heads[0].Part))
	return figures, err
}
