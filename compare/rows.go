package compare

import (
	"cmp"
	"math"
	"runtime"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Report is the outcome of a comparison.
type Report struct {
	Text    Text    `json:"text"`
	Seconds float64 `json:"time_s"` // training time of each run
	Clock   string  `json:"clock"`
	Params  int     `json:"params"` // as requested, or those of the first model
	Seeds   int     `json:"seeds"`
	Threads int     `json:"threads"`
	Models  []Row   `json:"models"`
}

// Row is one model of a comparison, over all its seeds. Losses are means over the runs that did not diverge.
type Row struct {
	Model       string   `json:"model"`
	Params      int      `json:"params"`
	DModel      int      `json:"d_model"`
	Steps       int      `json:"steps"`  // mean per run, as are the next three
	Tokens      int      `json:"tokens"` // of training
	TokensPerS  float64  `json:"tokens_per_s"`
	Seconds     float64  `json:"train_s"`
	TrainLoss   *float64 `json:"train_loss,omitempty"`
	ValidLoss   *float64 `json:"valid_loss,omitempty"`
	Spread      *float64 `json:"valid_loss_spread,omitempty"` // standard deviation over seeds, if there are two or more
	BitsPerByte *float64 `json:"bits_per_byte,omitempty"`
	Test        *Test    `json:"test,omitempty"`
	Diverged    int      `json:"diverged"` // number of runs that diverged
	Runs        []Result `json:"runs"`
}

// Report summarizes the runs by model, the lowest validation loss first and models that diverged last.
func (c *Comparison) Report(text Text, runs []Result) *Report {
	o := &c.Options
	r := &Report{
		Text: text, Seconds: o.Time.Seconds(), Clock: o.Clock, Params: o.Params, Seeds: o.Seeds,
		Threads: runtime.GOMAXPROCS(0),
	}
	for i, e := range c.Models {
		row := Row{Model: e.Name, Params: c.Params[i], DModel: e.Config.Model.DModel}
		for _, run := range runs {
			if run.Model == e.Name {
				row.Runs = append(row.Runs, run)
			}
		}
		if len(row.Runs) > 0 { // else the comparison was interrupted before it
			row.sumUp(&text)
			r.Models = append(r.Models, row)
		}
	}
	loss := func(row Row) float64 {
		if row.ValidLoss == nil {
			return math.Inf(1)
		}
		return *row.ValidLoss
	}
	slices.SortStableFunc(r.Models, func(a, b Row) int { return cmp.Compare(loss(a), loss(b)) })
	return r
}

func (row *Row) sumUp(text *Text) {
	var trained, valid []float64
	var tests []*Test
	steps, tokens := 0, 0
	for _, r := range row.Runs {
		steps, tokens, row.Seconds = steps+r.Steps, tokens+r.Tokens, row.Seconds+r.Seconds
		if r.Diverged != "" || r.ValidLoss == nil {
			row.Diverged++
			continue
		}
		valid = append(valid, *r.ValidLoss)
		if r.Test != nil {
			tests = append(tests, r.Test)
		}
		if r.TrainLoss != nil {
			trained = append(trained, *r.TrainLoss)
		}
	}
	n := len(row.Runs)
	if row.Seconds > 0 {
		row.TokensPerS = float64(tokens) / row.Seconds
	}
	row.Steps, row.Tokens, row.Seconds = steps/n, tokens/n, row.Seconds/float64(n)
	row.TrainLoss, _ = meanAndSpread(trained)
	row.ValidLoss, row.Spread = meanAndSpread(valid)
	row.BitsPerByte = text.BitsPerByte(row.ValidLoss)
	row.Test = meanTest(tests)
}

// meanTest returns the means of scores, or nil if there are none. It averages the perplexities, not the losses behind
// them.
func meanTest(tests []*Test) *Test {
	if len(tests) == 0 {
		return nil
	}
	mean := &Test{Text: tests[0].Text}
	for _, t := range tests {
		n := float64(len(tests))
		mean.Loss, mean.BitsByte = mean.Loss+t.Loss/n, mean.BitsByte+t.BitsByte/n
		mean.Word, mean.GPT2 = mean.Word+t.Word/n, mean.GPT2+t.GPT2/n
	}
	return mean
}

// meanAndSpread returns the mean, nil for no values, and the standard deviation, nil for fewer than two.
func meanAndSpread(values []float64) (mean, spread *float64) {
	m, s := stat.MeanStdDev(values, nil)
	switch len(values) {
	case 0:
		return nil, nil
	case 1:
		return &m, nil
	}
	return &m, &s
}
