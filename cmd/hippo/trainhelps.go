package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/train/text"
)

// setBatch sets the number of sequences of a shard to batch or, if that is "auto", to the maximum that fits into
// memory. sized reports whether another flag sets this number, too.
func setBatch(cfg *text.Config, batch string, sized bool) error {
	switch {
	case batch == "":
		return nil
	case batch != "auto":
		n, err := strconv.Atoi(batch)
		if err != nil || n < 1 {
			return fmt.Errorf("batch: found %q, want a number of sequences, or auto", batch)
		}
		if sized {
			return fmt.Errorf("batch: found %s together with --train.batch_size, want one of them", batch)
		}
		cfg.Train.BatchSize = n
		return cfg.Validate()
	}
	vocab, err := cfg.VocabSize()
	if err != nil {
		return err
	}
	said, err := cfg.FitBatch(vocab)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, said)
	return nil
}

// shownTokens is the maximum number of tokens of a text that showTexts prints.
const shownTokens = 2000

// showTexts prints the first n training texts. It marks which pieces are only given and which count in the loss.
func showTexts(cmd *cobra.Command, cfg text.Config, n int) error {
	d, err := cfg.OpenData(cmd.Context(), nil)
	if err != nil {
		return err
	}
	defer d.Close()
	out := cmd.OutOrStdout()
	for i := range n {
		spans, tokens, ok, err := d.Example(i, shownTokens)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		counted := 0
		for _, s := range spans {
			if !s.Given {
				counted += s.Count
			}
		}
		fmt.Fprintf(out, "text %d of %d: %d tokens", i+1, d.Train.Documents(), tokens)
		if tokens > shownTokens {
			fmt.Fprintf(out, ", of which the first %d are shown", shownTokens)
		}
		fmt.Fprintf(out, "; %d count\n", counted)
		for _, s := range spans {
			what := "counts"
			if s.Given {
				what = "given"
			}
			fmt.Fprintf(out, "  %-6s  %s\n", what, strconv.Quote(s.Text))
		}
	}
	return nil
}

// tryTraining makes a trial run: see text.Config.Smoke. If keep is false, nothing is saved.
func tryTraining(cmd *cobra.Command, cfg text.Config, keep bool) error {
	cfg.Smoke()
	if !keep {
		dir, err := os.MkdirTemp("", "hippo-smoke-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		cfg.Out = filepath.Join(dir, "run")
	}
	res, err := watchTraining(cmd, cfg, false)
	if err != nil {
		return err
	}
	where := "nothing of it was saved"
	if keep {
		where = "it is in " + cfg.Out
	}
	fmt.Fprintln(os.Stderr, strings.Join([]string{"smoke test passed: two updates, a checkpoint and a sample text",
		fmt.Sprintf("validation loss %.4f on a little text", res.ValidLoss), where}, "; "))
	return nil
}
