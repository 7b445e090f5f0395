package text

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"strings"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// CardFile is the name of the run card in a run's folder.
const CardFile = "MODEL.md"

// card returns the run card, which describes the model, its data and the course of the training.
func (r *run) card(res Result) []byte {
	tr := r.work
	var b bytes.Buffer
	c := tr.Config
	plan, _ := c.Model.Plan()
	fmt.Fprintf(&b, "# %s\n\n", c.Out)
	fmt.Fprintf(&b, "A language model of %s parameters trained by hippo: %s.\n\n",
		status.Count(float64(tr.params.All)), strings.Join(plan, ", "))
	fmt.Fprintf(&b, "| | |\n|---|---|\n")
	row := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s |\n", key, fmt.Sprintf(format, args...))
	}
	if res.BestStep == res.Step {
		row("validation loss", "%s", LossText(res.BestLoss))
	} else {
		row("validation loss", "%s, at step %d: the best, in `%s/`", LossText(res.BestLoss), res.BestStep,
			model.BestDir)
		row("validation loss at the end", "%.4f, in `%s/`", res.ValidLoss, model.LastDir)
	}
	row("training", "%d steps, %s tokens, %s", res.Step, status.Count(float64(res.Tokens)),
		status.Duration(res.Elapsed))
	if b := &c.Base; b.Name != "" {
		row(beganWith, "%s (%s), weights %s", cell(b.Name), cell(b.Path), b.Weights)
		for _, said := range b.Card {
			row("of that: "+said.Key, "%s", cell(said.Text))
		}
	}
	if l := &c.LoRA; l.Rank > 0 {
		row("adapter", "%s parameters, changes of rank %d of %d matrices, alpha %g; all else is frozen, in %s",
			status.Count(float64(tr.params.Trained)), l.Rank, len(tr.Model.Adapter().Changes), l.alpha(), l.precision())
	} else if frozen := tr.params.All - tr.params.Trained; frozen > 0 {
		row("frozen", "%s of the parameters: %s", status.Count(float64(frozen)), cell(strings.Join(c.Freeze, ", ")))
	}
	row("data", "%s, sha256 %s", tr.Data.Name, tr.Data.Hash)
	row("tokens", "%d for training, %d for validation, %s tokenizer, fingerprint %s", tr.Data.Train.Len(),
		tr.Data.Valid.Len(), tr.Data.Tokenizer.Kind(), tr.Data.Tokenizer.Fingerprint())
	row("seed", "%d", c.Seed)
	row("commit", "%s", train.Commit())
	row("machine", "%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), runtime.Version())
	if d, ok := c.Device.(fmt.Stringer); ok {
		row("device", "%s", cell(d.String()))
	}
	for _, text := range res.Remarks {
		fmt.Fprintf(&b, "\nNote: %s.\n", text)
	}
	fmt.Fprintf(&b, "\n## Sample\n\n%s\n\n", quote(tr.sampled))
	fmt.Fprintf(&b, "## Curves\n\nTraining loss (smoothed):\n\n```\n%s\n```\n\n",
		strings.TrimRight(status.Curve(r.loop.Curve(), 72, 12), "\n"))
	fmt.Fprintf(&b, "| step | validation loss |\n|---|---|\n")
	for _, p := range r.loop.Points() {
		fmt.Fprintf(&b, "| %d | %.4f |\n", p.Step, p.Valid.Loss)
	}
	text, err := config.Marshal(&c)
	if err == nil {
		fmt.Fprintf(&b, "\n## Configuration\n\n```yaml\n%s```\n", text)
	}
	return b.Bytes()
}

// cell escapes text for a cell of a Markdown table.
func cell(text string) string { return strings.ReplaceAll(brief.Line(text), "|", `\|`) }

// LossText formats a loss in nats per token, together with its perplexity.
func LossText(nats float64) string {
	format := "%.2f"
	if nats > 12 { // the perplexity would have too many digits
		format = "%.3g"
	}
	return fmt.Sprintf("%.4f nats per token (perplexity "+format+")", nats, math.Exp(nats))
}

// quote returns arbitrary text as a fenced Markdown block.
func quote(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + strings.ToValidUTF8(text, "\uFFFD") + "\n" + fence
}
