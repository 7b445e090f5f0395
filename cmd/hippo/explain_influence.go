package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/influence"
	"github.com/hippo-ssm/hippo/tokenizer"
)

func newExplainInfluence() *cobra.Command {
	var out explainOutput
	var layers layersFlag
	opt := influence.Options{Next: influence.LikeliestToken}
	most, next := 0, ""
	cmd := &cobra.Command{
		Use:   "influence MODEL TEXT",
		Short: "Show which tokens each token draws on, in each layer and through all of them",
		Long: `Let the model read TEXT and show, for each layer, what each token draws on. Every mixer is seen by one
definition ("A Unified Implicit Attention Formulation", arXiv:2405.16504): for this text its output is, exactly,

  y[t] = b[t] + Σ_s C[t,s]

where C[t,s] is what token s adds at t, with all that multiplies values held fixed as it is: attention weights, gates,
steps and decays, and activations behind a filter as f(z)/z. Of attention that is the pattern, of H3 and Hyena gates
times kernels, of Mamba products of decays, each with its short filter. Measures of C[t,s]:

  share  the part of what the layer writes at t that comes from s; a row sums to 1, and a part may work against the rest
  mean   the mean of the matrices of all channels, as in the paper
  norm   the size of C[t,s]; it takes some twenty times as long as the others

The page shows, for --token, what it draws on in each layer and what it comes from through all layers (rollout,
arXiv:2005.00928), and a map for each layer, a row of which is shown in the text by a click. --gradient has gradient
times input beside it, of tokens and of what each layer adds. MODEL may be the folder of a task's run, too, whose
tokens are numbers: TEXT is "3 1 4".`,
		Example: `  hippo explain influence runs/tiny "Call me Ishmael. Some years ago, never mind how long" --open
  hippo explain influence models/h3-125m --file chapter1.txt --tokens 1024 --layer 0,6,11
  hippo explain influence models/mamba-130m "The capital of France is" --gradient --next " Paris"
  hippo explain influence runs/task/recall/h3-seed1 "3 17 5 11 3" --measure mean --out influence.json`,
		Args:              wantArgs(1, 2),
		ValidArgsFunction: completeArgs(completeFolders),
	}
	out.register(cmd, "influence")
	explainTextFlags(cmd)
	f := cmd.Flags()
	layers.register(cmd)
	f.IntVar(&opt.Head, "head", influence.AllHeads, "one head of these layers, counted from 0; -1 for all together")
	f.IntVar(&opt.Token, "token", influence.LastToken, "token whose sources are shown, counted from 0; -1: the last")
	f.StringVar(&opt.Measure, "measure", influence.Share,
		"of what a token adds: "+strings.Join(influence.Measures, ", "))
	f.BoolVar(&opt.Gradient, "gradient", false, "gradient times input beside it: as costly as a step of training")
	f.StringVar(&next, "next", "", "the token behind --token that the gradient is of (default the likeliest)")
	f.IntVar(&most, "tokens", 1024, "the first so many tokens of the text; 0 for all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		var err error
		if opt.Layers, err = layers.layers(); err != nil {
			return err
		}
		v, err := openText(cmd, args)
		if err != nil {
			return err
		}
		if err := v.take(most); err != nil {
			return err
		}
		if next != "" {
			if opt.Next, err = nextToken(v.tok, next); err != nil {
				return err
			}
			opt.Gradient = true
		}
		p := newProgress("influence, layers:")
		opt.Progress = p.update
		r, err := unlessDone(cmd.Context(), func() (*influence.Report, error) {
			return influence.Of(cmd.Context(), v.language, v.ids, opt)
		})
		p.close()
		if err != nil {
			return err
		}
		behind := ""
		if r.Gradients != nil {
			behind = explain.TokenNames(v.tok, []int32{r.Gradients.Next})[0]
		}
		page := r.Page(explain.TokenNames(v.tok, v.ids), behind)
		v.head(page)
		return out.write(cmd, page)
	}
	return cmd
}

// nextToken is the one token that a text is.
func nextToken(tok tokenizer.Tokenizer, text string) (int32, error) {
	ids, err := tok.Encode(nil, []byte(text))
	if err != nil {
		return 0, fmt.Errorf("--next: %w", err)
	}
	if len(ids) != 1 {
		return 0, fmt.Errorf("--next: found %d tokens in %q, want one: %q", len(ids), text,
			explain.TokenNames(tok, ids))
	}
	return ids[0], nil
}
