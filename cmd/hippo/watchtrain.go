package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/watch"
)

// learnFirst trains a model on logs, and computes its first thresholds from their last part.
func (o *watchOptions) learnFirst(cmd *cobra.Command) error {
	if o.Out == "" {
		return errors.New("out: found nothing, want the folder of the new model")
	}
	cfg, err := watch.TrainConfig(o.Preset, o.Out, o.Steps, o.Train...)
	if err != nil {
		return err
	}
	if _, err := watchTraining(cmd, cfg, false); err != nil {
		if errors.Is(err, errInterrupted) {
			note("then --calibrate starts thresholds, from ordinary lines that the model was not trained on")
		}
		return err
	}
	d, err := cfg.OpenData(cmd.Context(), nil)
	if err != nil {
		return err
	}
	defer d.Close()
	m, err := hippo.Load(o.Out)
	if err != nil {
		return err
	}
	return o.learnScores(cmd.Context(), m, &tokensReader{tokens: d.Valid, tok: d.Tokenizer})
}

// calibrate stores the scores of the lines in files.
func (o *watchOptions) calibrate(cmd *cobra.Command, m *hippo.Model, files []string) error {
	var all []io.Reader
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		all = append(all, f)
	}
	return o.learnScores(cmd.Context(), m, io.MultiReader(all...))
}

// learnScores stores the scores of ordinary lines beside a model, and prints the threshold that follows from them.
func (o *watchOptions) learnScores(ctx context.Context, m *hippo.Model, in io.Reader) error {
	to, err := o.options()
	if err != nil {
		return err
	}
	to.Learn.Every = 0
	w, err := watch.New(m.Net(), m.Tokenizer(), nil, to)
	if err != nil {
		return err
	}
	p := newRowCounter("lines read")
	c, err := w.Calibrate(ctx, in, o.MaxLine, p.add)
	p.close()
	if err != nil {
		return err
	}
	if err := c.Save(m.Dir()); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "thresholds start from %s lines: %g in a million score above %.1f\n", status.Count(c.Lines),
		o.Alarms, c.Scores.Threshold(to.Rate))
	return nil
}

// tokensReader is an io.Reader of the text of tokens.
type tokensReader struct {
	tokens *data.Tokens
	tok    tokenizer.Tokenizer
	at     int
	text   []byte // not read yet
}

func (r *tokensReader) Read(p []byte) (int, error) {
	for len(r.text) == 0 {
		ids := make([]int32, 4096)
		n, err := r.tokens.Read(ids, r.at)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return 0, io.EOF
		}
		r.at += n
		r.text = r.tok.Decode(nil, ids[:n])
	}
	n := copy(p, r.text)
	r.text = r.text[n:]
	return n, nil
}
