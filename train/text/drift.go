package text

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/quantize"
)

// DriftReport describes how far a model is from another in a part of a text.
type DriftReport struct {
	Model string `json:"model"`
	From  string `json:"compared_with"`
	Text  string `json:"text"`
	Start int    `json:"start"` // first token of the part
	End   int    `json:"end"`   // end of the part, exclusive
	// Every is 1 if the predictions at every token are compared, 2 if at every second one, and so on.
	Every int     `json:"every"`
	Loss  float64 `json:"loss"` // of the model that it is compared with, nats per token
	quantize.Drift
}

// Compare compares models with the first one along the start of its text, see quantize.MeasureDrift.
func (e *ModelEval) Compare(ctx context.Context, dirs []string) (reports []DriftReport, err error) {
	var p config.Problems
	if len(dirs) < 2 {
		p.Addf("drift", "found one model, want those to compare with it, too")
	}
	if e.Options.Baseline {
		p.Addf("drift", "found it together with baseline, want one of them")
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	m, texts, err := e.open(ctx, dirs[0], nil, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, texts.close()) }()
	for _, note := range texts.notes {
		e.Note(note)
	}
	var others []*model.Model
	var names []string
	for _, dir := range dirs[1:] {
		other, err := e.Load(dir)
		switch {
		case err != nil:
			return nil, err
		case other.Tokenizer.Fingerprint() != m.Tokenizer.Fingerprint():
			return nil, fmt.Errorf("%s: found another tokenizer than %s has, want the same", dir, dirs[0])
		}
		others, names = append(others, other.Net), append(names, other.Dir)
	}
	n := min(e.Options.Drift, texts.valid.Len()-1)
	if n < e.Options.Drift {
		e.Note(fmt.Sprintf("drift: found a text of %d tokens, wanted %d", n, e.Options.Drift))
	}
	if err := fits(m.Net, n, false); err != nil {
		return nil, fmt.Errorf("drift: %w", err)
	}
	ids := make([]int32, n+1)
	if _, err := texts.valid.Read(ids, 0); err != nil {
		return nil, err
	}
	update, end := e.Progress()
	defer end()
	piece := e.Options.SeqLen
	if piece == 0 {
		piece = defaultSeqLen
	}
	parts, err := quantize.MeasureDrift(ctx, m.Net, others, ids, quantize.DriftOptions{Piece: piece, Progress: update})
	if err != nil {
		return nil, fmt.Errorf("drift: %w", err)
	}
	for i, name := range names {
		for _, part := range parts {
			reports = append(reports, DriftReport{Model: name, From: m.Dir, Text: texts.name, Start: part.From,
				End: part.To, Every: quantize.DriftEvery(m.Net, n), Loss: part.Loss, Drift: part.Others[i]})
		}
	}
	return reports, nil
}

// PrintDrift prints a table with a line for each model and part of the text.
func PrintDrift(out io.Writer, reports []DriftReport) error {
	first := reports[0]
	fmt.Fprintf(out, "text: %s\ncompared with: %s\n\n", first.Text, first.From)
	head := []string{"model", "tokens up to", "logits off by", "divergence", "loss", "more", "states off by", "most"}
	var lines [][]string
	for _, r := range reports {
		line := []string{r.Model, fmt.Sprint(r.End), percent(r.Logits), fmt.Sprintf("%.3g", r.KL),
			fmt.Sprintf("%.4f", r.Loss), fmt.Sprintf("%+.5f", r.More)}
		if r.Where != "" {
			line = append(line, percent(r.State), percent(r.Worst)+" in "+r.Where)
		}
		lines = append(lines, line)
	}
	return status.Grid(out, head, lines, false)
}

func percent(x float64) string { return fmt.Sprintf("%.3g %%", 100*x) }
