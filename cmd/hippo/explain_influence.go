package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/explain/influence"
	"github.com/hippo-ssm/hippo/tokenizer"
)

func newExplainInfluence() *cobra.Command {
	var layers layersFlag
	opt := influence.Options{Next: influence.LikeliestToken}
	next := ""
	cmd := &cobra.Command{
		Use:   "influence MODEL TEXT",
		Short: "Show which tokens each token draws on, in each layer and through all of them",
		Long: `Read TEXT with the model and show, for each layer, what each token draws on. One definition serves every
mixer ("A Unified Implicit Attention Formulation", arXiv:2405.16504): for this text its output is, exactly,

  y[t] = b[t] + Σ_s C[t,s]

where C[t,s] is what token s adds at t. Everything that multiplies values is held fixed: attention weights, gates, steps
and decays, and activations after a filter as f(z)/z. For attention that is the pattern, for H3 and Hyena gates times
kernels, for Mamba products of decays, each with its short filter. Measures of C[t,s]:

  share  the part of what the layer writes at t that comes from s; a row sums to 1, and a part may oppose the rest
  mean   the mean of the matrices of all channels, as in the paper
  norm   the size of C[t,s]; it takes some twenty times as long as the others

The page shows what --token draws on in each layer and through all layers (rollout, arXiv:2005.00928), and a map for
each layer; click a row to see it in the text. --gradient adds gradient times input, of tokens and of what each layer
adds. MODEL may also be the folder of a task's run, whose tokens are numbers: TEXT is "3 1 4".`,
		Example: `  hippo explain influence runs/tiny "Call me Ishmael. Some years ago, never mind how long" --open
  hippo explain influence models/h3-125m --file chapter1.txt --tokens 1024 --layer 0,6,11
  hippo explain influence models/mamba-130m "The capital of France is" --gradient --next " Paris"
  hippo explain influence runs/task/recall/h3-seed1 "3 17 5 11 3" --measure mean --out influence.json`,
	}
	f := cmd.Flags()
	layers.register(cmd)
	f.IntVar(&opt.Head, "head", influence.AllHeads, "one head of these layers, counted from 0; -1 for all together")
	f.IntVar(&opt.Token, "token", influence.LastToken, "token whose sources are shown, counted from 0; -1: the last")
	f.StringVar(&opt.Measure, "measure", influence.Share,
		"measure of what a token adds: "+strings.Join(influence.Measures, ", "))
	f.BoolVar(&opt.Gradient, "gradient", false, "add gradient times input: as costly as a step of training")
	f.StringVar(&next, "next", "", "the token after --token whose gradient is taken (default the likeliest)")
	check := func() (err error) {
		opt.Layers, err = layers.layers()
		return err
	}
	return drawText(cmd, 1024, check, func(cmd *cobra.Command, v *textView) (_ *figure.Page, err error) {
		if next != "" {
			if opt.Next, err = nextToken(v.tok, next); err != nil {
				return nil, err
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
			return nil, err
		}
		after := ""
		if r.Gradients != nil {
			after = explain.TokenNames(v.tok, []int32{r.Gradients.Next})[0]
		}
		return r.Page(v.names(), after), nil
	})
}

// nextToken returns the token of a text, which must be exactly one.
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
