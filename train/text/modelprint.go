package text

import (
	"fmt"
	"io"

	"github.com/hippo-ssm/hippo/internal/status"
)

// Print prints the report of one model.
func (r *ModelReport) Print(out io.Writer) error {
	t := status.NewTable(out)
	t.Row("model", "%s, %s parameters", r.Model, status.Count(r.Params))
	t.Row("text", "%s", r.Text)
	mode := "windows of %d, each from an empty state"
	if r.Stream {
		mode = "one stream, in chunks of %d"
	}
	t.Row("read as", mode, r.SeqLen)
	t.Row("tokens", "%d, for %d bytes", r.Tokens, r.Bytes)
	t.Row("loss", "%.4f nats per token", r.Loss)
	t.Row("perplexity", "%.4g", r.Perplexity)
	t.Row("perplexity per word", "%.4g, of %d words between white space", r.WordPerplex, r.Words)
	if p := r.Per; p != nil {
		t.Row("perplexity per token of "+p.Tokenizer, "%.4g, of %d", p.Perplexity, p.Count)
	}
	t.Row("bits per byte", "%.4f", r.BitsByte)
	for _, p := range r.ByPosition {
		t.Row(fmt.Sprintf("positions %d to %d", p.From, p.To), "loss %.4f, perplexity %.4g", p.Loss, p.Perplexity)
	}
	t.Row("speed", "%s tokens/s", status.Count(r.TokensPerSec))
	if a := r.Reads; a != nil {
		t.Row("attention reads", "%.1f %% of keys (%.1f %% of their bits) and %.1f %% of values", 100*a.Keys,
			100*a.KeyBits, 100*a.Values)
	}
	if b := r.Baseline; b != nil {
		t.Row("unigram loss", "%.4f nats per token, counted in %d tokens", b.Unigram, r.CountedIn)
		t.Row("bigram loss", "%.4f nats per token", b.Bigram)
	}
	return t.Flush()
}

// PrintReports prints a single report, or several as a table in the given order, with the losses of the n-gram
// baselines.
func PrintReports(out io.Writer, reports []*ModelReport) error {
	if len(reports) == 1 {
		return reports[0].Print(out)
	}
	fmt.Fprintf(out, "text: %s\n\n", reports[0].Text)
	head := []string{"model", "parameters", "tokenizer", "window", "tokens", "bytes", "loss", "perplexity", "bits/byte",
		"per word", "tokens/s"}
	var lines [][]string
	for _, r := range reports {
		window := fmt.Sprint(r.SeqLen)
		if r.Stream {
			window = "stream"
		}
		lines = append(lines, []string{
			r.Model, status.Count(r.Params), r.Tokenizer, window, fmt.Sprint(r.Tokens), fmt.Sprint(r.Bytes),
			fmt.Sprintf("%.4f", r.Loss), fmt.Sprintf("%.4g", r.Perplexity), fmt.Sprintf("%.4f", r.BitsByte),
			fmt.Sprintf("%.4g", r.WordPerplex), status.Count(r.TokensPerSec),
		})
	}
	for _, r := range reports {
		if b := r.Baseline; b != nil {
			for i, loss := range []float64{b.Bigram, b.Unigram} {
				name := []string{"(bigram counts)", "(unigram counts)"}[i]
				lines = append(lines, []string{name, "", r.Tokenizer, "", "", "", fmt.Sprintf("%.4f", loss), "",
					fmt.Sprintf("%.4f", loss*r.BitsByte/r.Loss)})
			}
			break // there is one baseline, for one tokenizer
		}
	}
	return status.Grid(out, head, lines, false)
}
