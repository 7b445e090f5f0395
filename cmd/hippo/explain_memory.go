package main

import (
	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/memory"
)

func newExplainMemory() *cobra.Command {
	var out explainOutput
	var layers layersFlag
	opt := memory.Options{ReadOut: true}
	most := 0
	cmd := &cobra.Command{
		Use:   "memory MODEL TEXT",
		Short: "Show what each token wrote into the states, and how long it stays there",
		Long: `Let the model read TEXT and follow the state of each layer. A state goes on from token to token as

  S[t] = Φ[t] S[t-1] + w[t]

where w[t] is what token t writes and Φ[t] what becomes of all that was there: decays, complex ones, a shift, a matrix.
Both are those of the model, gates included, so that what is left of all tokens adds up to the state. The page shows

  half-lives   after how many tokens half of what was written is left, by layer and channel
  what is left of each token at every later one, and in the text
  what each token wrote, and how large the states are
  read-out     what a linear map, fitted on one part of the text, finds of past tokens in the states of another part
  the states themselves, by channel over time, and as the text passes

Attention keeps keys and values of its window or of all tokens. Mixers whose state is not linear in itself show how
large it is, and their read-out. MODEL may be the folder of a task's run, too, whose tokens are numbers: TEXT is "3 1
4".`,
		Example: `  hippo explain memory runs/tiny "Call me Ishmael. Some years ago" --open
  hippo explain memory models/h3-125m --file chapter1.txt --tokens 1024 --layer 0,6,11
  hippo explain memory runs/task/recall/h3-seed1 "3 17 5 11 3" --out memory.json`,
		Args:              wantArgs(1, 2),
		ValidArgsFunction: completeArgs(completeFolders),
	}
	out.register(cmd, "memory")
	explainTextFlags(cmd)
	layers.register(cmd)
	cmd.Flags().BoolVar(&opt.ReadOut, "readout", true, "fit what can be read out of the states")
	cmd.Flags().IntVar(&most, "tokens", 1024, "the first so many tokens of the text; 0 for all")
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
		m, err := memory.Of(cmd.Context(), v.language, v.ids, opt)
		if err != nil {
			return err
		}
		page := m.Page(explain.TokenNames(v.tok, v.ids))
		v.head(page)
		return out.write(cmd, page)
	}
	return cmd
}
