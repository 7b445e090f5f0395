package main

import (
	"bufio"
	"encoding/json"
	"math"
	"os"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/session"
)

func newEmbed() *cobra.Command {
	opt := struct {
		Precision string `json:"precision" enum:"stored,float32,bf16,int8,int4,int4min" help:"precision of the weights"`
		session.FileEmbedding
	}{hippo.Stored, session.FileEmbedding{Pooling: string(session.PoolMean)}}
	cmd := &cobra.Command{
		Use:   "embed MODEL [FILE...]",
		Short: "Turn texts into vectors, to compare them by",
		Long: `Print a vector of length 1 for each line of the files, or of standard input: the mean of the hidden
states after the model's final norm, or the last of them, divided by its length. The dot product of two vectors measures
how similar the model finds two texts. Empty lines are skipped. With --pooling none each token has its own vector, such
as each base of DNA: its hidden state, of it and those before it.

Each vector is a line of JSON with the file, the number of the line, the number of tokens, and the vector; or with the
position of the token, from 1, and its text.`,
		Example: `  hippo embed runs/tiny questions.txt > questions.jsonl
  hippo embed runs/tiny --whole chapter1.txt chapter2.txt --pooling last
  echo "Call me Ishmael." | hippo embed runs/tiny --dimensions 16
  hippo embed runs/genome reads.txt --pooling none             # a vector for each base`,
		Args:              wantArgs(1, math.MaxInt),
		ValidArgsFunction: completeFolders,
	}
	return configured(cmd, &opt, func(cmd *cobra.Command, args []string) error {
		m, err := loadModel(args[0], "", hippo.Precision(opt.Precision))
		if err != nil {
			return err
		}
		if len(args) > 1 {
			defer saidWhenSlow("reading the texts; their vectors follow, a line for each")()
		}
		return write(cmd, func(out *bufio.Writer) error {
			return opt.Embed(cmd.Context(), m.Net(), m.Tokenizer(), args[1:], os.Stdin, json.NewEncoder(out).Encode)
		})
	})
}
