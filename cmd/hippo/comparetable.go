package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/hippo-ssm/hippo/compare"
	"github.com/hippo-ssm/hippo/experiment"
	"github.com/hippo-ssm/hippo/internal/status"
)

// comparison is a report of a comparison as a table.
type comparison struct{ *compare.Report }

// counting is the loss of a baseline of n-gram counts.
type counting struct {
	name string
	loss float64
}

func (r comparison) countings() []counting {
	b := r.Text.Baseline
	return []counting{{"bigram", b.Bigram}, {"unigram", b.Unigram}}
}

// cells is the table: a heading, the models, and the baselines.
func (r comparison) cells() [][]string {
	heading := []string{"model", "parameters", "steps", "tokens", "tokens/s", "train loss", "valid loss", "bits/byte"}
	for _, c := range r.countings() {
		heading = append(heading, "to "+c.name)
	}
	rows := [][]string{append(heading, "time")}
	for _, m := range r.Models {
		row := []string{
			m.Model, fmt.Sprint(m.Params), fmt.Sprint(m.Steps), status.Count(float64(m.Tokens)),
			status.Count(m.TokensPerS), number("%.3f", m.TrainLoss), r.loss(m), number("%.3f", m.BitsPerByte),
		}
		for _, c := range r.countings() {
			row = append(row, difference(m.ValidLoss, c.loss))
		}
		rows = append(rows, append(row, status.Duration(experiment.Seconds(m.Seconds))))
	}
	for _, c := range r.countings() {
		row := []string{
			"(" + c.name + " counts)", "", "", "", "", "", number("%.3f", &c.loss),
			number("%.3f", r.Text.BitsPerByte(&c.loss)),
		}
		for _, other := range r.countings() {
			row = append(row, difference(&c.loss, other.loss))
		}
		rows = append(rows, append(row, ""))
	}
	return rows
}

// loss is the validation loss of a model with its spread, or that it diverged.
func (r comparison) loss(m compare.Row) string {
	text := number("%.3f", m.ValidLoss)
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

func number(format string, v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}

func difference(v *float64, from float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%+.3f", *v-from)
}

// caption describes what all models have in common.
func (r comparison) caption() string {
	clock := "wall time"
	if r.Clock == "cpu" {
		clock = "CPU time"
	}
	return fmt.Sprintf("%s (%s tokenizer, %s tokens for training, %s for validation); %v of %s for training, "+
		"threads: %d, seeds: %d. Losses are nats per token; the differences are to the losses of counting.",
		r.Text.Name, r.Text.Tokenizer, status.Count(float64(r.Text.TrainTokens)),
		status.Count(float64(r.Text.ValidTokens)), experiment.Seconds(r.Seconds), clock, r.Threads, r.Seeds)
}

func (r comparison) print(out io.Writer) error {
	rows := r.cells()
	if err := status.Grid(out, rows[0], rows[1:], false); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\n", r.caption())
	return err
}

func (r comparison) printMarkdown(out io.Writer) error {
	line := func(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }
	var b strings.Builder
	for i, row := range r.cells() {
		row[0] = code(row[0], i)
		b.WriteString(line(row))
		if i == 0 {
			b.WriteString("|---|" + strings.Repeat("---:|", len(row)-1) + "\n")
		}
	}
	b.WriteString("\n" + r.caption() + "\n")
	_, err := io.WriteString(out, b.String())
	return err
}

// code marks the name of a model as code, but not the heading nor what stands in parentheses.
func code(name string, row int) string {
	if row == 0 || strings.HasPrefix(name, "(") {
		return name
	}
	return "`" + name + "`"
}
