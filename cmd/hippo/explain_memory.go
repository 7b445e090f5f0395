package main

import (
	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/explain/memory"
)

func newExplainMemory() *cobra.Command {
	var layers layersFlag
	opt := memory.Options{ReadOut: true}
	cmd := &cobra.Command{
		Use:   "memory MODEL TEXT",
		Short: "Show what each token writes into the states, and how long it stays there",
		Long: `Read TEXT with the model and follow the state of each layer. From token to token a state becomes

  S[t] = Φ[t] S[t-1] + w[t]

where w[t] is what token t writes and Φ[t] what happens to everything that was there: decays, complex ones, a shift, a
matrix. Both are the model's own, gates included, so that what is left of all tokens adds up to the state. The page
shows

  half-lives   after how many tokens half of what was written is left, by layer and channel
  what is left of each token at every later one, and in the text
  what each token wrote, and how large the states are
  read-out     what a linear map, fitted on one part of the text, finds of past tokens in the states of another part
  the states themselves, by channel over time, and as the text passes

Attention stores keys and values of its window or of all tokens. For mixers whose state is not linear in itself, the
page shows its size and the read-out. MODEL may also be the folder of a task's run, whose tokens are numbers: TEXT is
"3 1 4".`,
		Example: `  hippo explain memory runs/tiny "Call me Ishmael. Some years ago" --open
  hippo explain memory models/h3-125m --file chapter1.txt --tokens 1024 --layer 0,6,11
  hippo explain memory runs/task/recall/h3-seed1 "3 17 5 11 3" --out memory.json`,
	}
	layers.register(cmd)
	cmd.Flags().BoolVar(&opt.ReadOut, "readout", true, "fit what can be read out of the states")
	check := func() (err error) {
		opt.Layers, err = layers.layers()
		return err
	}
	return drawText(cmd, 1024, check, func(cmd *cobra.Command, v *textView) (*figure.Page, error) {
		defer saidWhenSlow("following what each token writes into the states, and what is left of it")()
		m, err := memory.Of(cmd.Context(), v.language, v.ids, opt)
		if err != nil {
			return nil, err
		}
		return m.Page(v.names()), nil
	})
}
