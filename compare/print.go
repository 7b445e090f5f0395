package compare

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/internal/status"
)

// counting is a baseline of n-gram counts and its loss.
type counting struct {
	name string
	loss float64
}

// cells returns the table: a heading, the models, and the baselines.
func (r *Report) cells() [][]string {
	b := r.Text.Baseline
	countings := []counting{{"bigram", b.Bigram}, {"unigram", b.Unigram}}
	heading := []string{"model", "parameters", "steps", "tokens", "tokens/s", "train loss", "valid loss", "bits/byte"}
	differences := func(loss *float64) (cells []string) {
		for _, c := range countings {
			text := "-"
			if loss != nil {
				text = fmt.Sprintf("%+.3f", *loss-c.loss)
			}
			cells = append(cells, text)
		}
		return cells
	}
	for _, c := range countings {
		heading = append(heading, "to "+c.name)
	}
	tested := slices.ContainsFunc(r.Models, func(m Row) bool { return m.Test != nil })
	if tested {
		heading = append(heading, "test: bits/byte", "by word", "by GPT-2 token")
	}
	rows := [][]string{append(heading, "time")}
	for _, m := range r.Models {
		row := []string{
			m.Model, fmt.Sprint(m.Params), fmt.Sprint(m.Steps), status.Count(m.Tokens), status.Count(m.TokensPerS),
			lossText(m.TrainLoss), m.loss(), lossText(m.BitsPerByte),
		}
		row = append(row, differences(m.ValidLoss)...)
		if tested {
			row = append(row, m.Test.cells()...)
		}
		rows = append(rows, append(row, status.Duration(seconds(m.Seconds))))
	}
	for _, c := range countings {
		row := []string{"(" + c.name + " counts)", "", "", "", "", "", lossText(&c.loss),
			lossText(r.Text.BitsPerByte(&c.loss))}
		row = append(row, differences(&c.loss)...)
		if tested {
			row = append(row, "", "", "")
		}
		rows = append(rows, append(row, ""))
	}
	return rows
}

// cells returns the bits per byte, and the perplexities per word and per token of GPT-2.
func (t *Test) cells() []string {
	if t == nil {
		return []string{"-", "-", "-"}
	}
	return []string{lossText(&t.BitsByte), fmt.Sprintf("%.4g", t.Word), fmt.Sprintf("%.4g", t.GPT2)}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// loss returns the validation loss with its spread as text, or that the model diverged.
func (m *Row) loss() string {
	text := lossText(m.ValidLoss)
	if m.Spread != nil {
		text += fmt.Sprintf(" ± %.3f", *m.Spread)
	}
	switch {
	case m.ValidLoss == nil:
		return "diverged"
	case m.Diverged > 0:
		return fmt.Sprintf("%s, %d of %d diverged", text, m.Diverged, len(m.Runs))
	}
	return text
}

func lossText(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *v)
}

// caption describes what all models have in common.
func (r *Report) caption() string {
	clock := "wall time"
	if r.Clock == "cpu" {
		clock = "CPU time"
	}
	test := ""
	if i := slices.IndexFunc(r.Models, func(m Row) bool { return m.Test != nil }); i >= 0 {
		test = " The test text is " + r.Models[i].Test.Text + "; by word and by GPT-2 token are perplexities."
	}
	return fmt.Sprintf("%s (%s tokenizer, %s tokens for training, %s for validation); %v of %s for training, "+
		"threads: %d, seeds: %d. Losses are nats per token; the differences are to the losses of counting.%s",
		r.Text.Name, r.Text.Tokenizer, status.Count(r.Text.TrainTokens), status.Count(r.Text.ValidTokens),
		seconds(r.Seconds), clock, r.Threads, r.Seeds, test)
}

// Print prints the report as a table.
func (r *Report) Print(out io.Writer) error {
	rows := r.cells()
	if err := status.Grid(out, rows[0], rows[1:], false); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\n", r.caption())
	return err
}

// PrintMarkdown prints the report as a table in Markdown.
func (r *Report) PrintMarkdown(out io.Writer) error {
	var b strings.Builder
	for i, row := range r.cells() {
		if i > 0 && !strings.HasPrefix(row[0], "(") { // the name of a model
			row[0] = "`" + row[0] + "`"
		}
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|---|" + strings.Repeat("---:|", len(row)-1) + "\n")
		}
	}
	b.WriteString("\n" + r.caption() + "\n")
	_, err := io.WriteString(out, b.String())
	return err
}
