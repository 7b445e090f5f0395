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
	"github.com/hippo-ssm/hippo/tokenizer"
)

// lensFlags are the flags of hippo explain lens.
type lensFlags struct {
	ablate, patch []string
	watch         []string
	mean          bool
	sweep, states bool
	at            string
	heads, tokens int
}

func newExplainLens() *cobra.Command {
	var out explainOutput
	var f lensFlags
	cmd := &cobra.Command{
		Use:   "lens MODEL TEXT",
		Short: "Show predictions after every layer, and what happens without a part of the model",
		Long: `Let the model read TEXT and show what it would predict if it ended after each of its layers (the logit
lens: the stream after a layer, through the final norm and the unembedding), and how the log-probability of what really
comes next moves without one layer after the other.

With --ablate or --patch show instead what the model predicts before and after a change:

  --ablate layer3           without what layer 3 adds to the stream: zero, or --mean for its mean over the text
  --ablate layer3.head2     without a head; also layer3.channel17, layer3.mixer, layer3.mlp, and of a layer of several
                            mixers layer3.attention.head2
  --ablate layer3.state     layer 3 carries nothing from token to token
  --patch layer3=TEXT2      with what layer 3 adds in the run of another text, token for token
  --patch layer3.state=TEXT2  before the last token, the state is that of the other text before its last token

--at says at which token: its number from 0, last or all. Layers are counted from 0. MODEL may be the folder of a task's
run, too, whose tokens are numbers: TEXT is "3 1 4".`,
		Example: `  hippo explain lens runs/tiny "Call me Ishmael. Some years ago"
  hippo explain lens models/h3-125m "The capital of France is" --ablate layer8 --ablate layer9.head2
  hippo explain lens models/h3-125m "The capital of France is" --watch " Paris" --watch " Rome"
  hippo explain lens models/h3-125m "The capital of France is" --patch layer6.state="The capital of Italy is"
  hippo explain lens models/h3-125m --file chapter1.txt --heads 6 --out lens.json`,
		Args:              wantArgs(1, 2),
		ValidArgsFunction: completeArgs(completeFolders),
	}
	out.register(cmd, "lens")
	explainTextFlags(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.ablate, "ablate", nil, "part to take away: layerN, layerN.headN, layerN.channelN, "+
		"layerN.mixer, layerN.mlp, layerN.state; several times for several")
	flags.StringArrayVar(&f.patch, "patch", nil, "PART=TEXT2: part to take from the run of another text; several "+
		"times for several")
	flags.BoolVar(&f.mean, "mean", false, "replace what is ablated by its mean over the text, not by zero")
	flags.StringVar(&f.at, "at", "", "token where it is changed: its number from 0, last or all (default all; "+
		"last for the patch of a state)")
	flags.StringArrayVar(&f.watch, "watch", nil, "text whose first token to follow, such as \" Paris\"; several times "+
		"for several")
	flags.BoolVar(&f.sweep, "sweep", true, "without --ablate and --patch, go without each layer in turn")
	flags.BoolVar(&f.states, "states", false, "go without the state of each layer in turn")
	flags.IntVar(&f.heads, "heads", -1, "layer of which to go without each head (or channel) in turn; -1 for none")
	flags.IntVar(&f.tokens, "tokens", 512, "the first so many tokens of the text; 0 for all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		c, err := f.changes()
		if err != nil {
			return err
		}
		v, err := openText(cmd, args)
		if err != nil {
			return err
		}
		if err := v.take(f.tokens); err != nil {
			return err
		}
		page := &figure.Page{Title: "Lens"}
		v.head(page)
		if page.Figures, err = f.figures(cmd.Context(), v.language, v.tok, v.ids, c); err != nil {
			return err
		}
		return out.write(cmd, page)
	}
	return cmd
}

// taken is how many tokens of a text are read: most (0 for all), and no more than the model takes.
func taken(g *explain.Language, most int) int {
	if longest := g.MaxLength(); longest > 0 && (most == 0 || most > longest) {
		return longest
	}
	return most
}

// changes are what --ablate and --patch say; the texts of patches are still to be read.
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

// figures are those that the flags ask for.
func (f *lensFlags) figures(ctx context.Context, g *explain.Language, tok tokenizer.Tokenizer, ids []int32,
	c lens.Changes) (figures []*figure.Figure, err error) {
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
	changed := len(c.Ablate)+len(c.Patch) > 0
	if changed {
		for i, patch := range f.patch {
			_, text, _ := strings.Cut(patch, "=")
			if c.Patch[i].IDs, err = tok.Encode(nil, []byte(text)); err != nil {
				return nil, fmt.Errorf("--patch: %w", err)
			}
		}
		r, err := lens.Change(ctx, g, ids, c)
		if err != nil {
			return nil, err
		}
		figures = append(figures, r.Figures(tok)...)
	} else {
		r, err := lens.Of(ctx, g, ids, c.Watched...)
		if err != nil {
			return nil, err
		}
		figures = append(figures, r.Figures(tok)...)
		if f.sweep && len(ids) > 1 {
			if figures, err = f.swept(ctx, figures, g, tok, ids, g.LayerTargets(), "layer"); err != nil {
				return nil, err
			}
		}
	}
	if f.states {
		states := g.StateTargets()
		if len(states) == 0 {
			return nil, errors.New("--states: found no layer that carries a state, want a causal model")
		}
		if figures, err = f.swept(ctx, figures, g, tok, ids, states, "state"); err != nil {
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
	return f.swept(ctx, figures, g, tok, ids, heads, string(heads[0].Part))
}

// swept appends what happens without each of some parts.
func (f *lensFlags) swept(ctx context.Context, figures []*figure.Figure, g *explain.Language, tok tokenizer.Tokenizer,
	ids []int32, parts []explain.Target, of string) ([]*figure.Figure, error) {
	p := newProgress("without one " + of + " after the other:")
	r, err := lens.Sweep(ctx, g, ids, parts, p.update)
	p.close()
	if err != nil {
		return nil, err
	}
	return append(figures, r.Figures("lens-without-"+of, of, tok)...), nil
}
