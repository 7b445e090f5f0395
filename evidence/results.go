package evidence

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/compare"
	"github.com/hippo-ssm/hippo/experiment"
	"github.com/hippo-ssm/hippo/fit"
	"github.com/hippo-ssm/hippo/train"
)

// result is the stored result of a run, a line of results.jsonl.
type result struct {
	Command string  `json:"command"` // name of the recipe; the run was in its folder below runs/evidence
	Task    string  `json:"task"`
	Model   string  `json:"model"`
	Seed    uint64  `json:"seed"`
	Params  int     `json:"params"`
	Score   float64 `json:"score"`
	// of the score: %, MSE, nats for the validation loss of a language model, or bitsPerByte
	Unit    string   `json:"unit"`
	Loss    float64  `json:"loss"` // of the test, in nats or MSE
	Also    []also   `json:"also,omitempty"`
	Groups  []also   `json:"groups,omitempty"` // scores of groups of the test's targets
	Curve   []moment `json:"curve,omitempty"`  // scores during the run
	Steps   int      `json:"steps"`
	CPU     float64  `json:"cpu_seconds"`
	Machine string   `json:"machine"`
	Commit  string   `json:"commit"`
	Date    string   `json:"date"`
}

// bitsPerByte is the unit of a language model's score on test text.
const bitsPerByte = "bits/byte"

// also is a further measurement.
type also struct {
	Name  string  `json:"name"`
	Score float64 `json:"score"`
	Unit  string  `json:"unit,omitempty"` // "" for the unit of the result
}

// key identifies a run. A later result with the same key replaces an earlier one.
func (r *result) key() string {
	return strings.Join([]string{r.Command, r.Task, r.Model, fmt.Sprint(r.Seed)}, "\n")
}

// collect reads the results below a folder of runs. It skips those without commit, date or machine, and lists them in
// left.
func collect(runs string) (all []result, left []string, err error) {
	err = filepath.WalkDir(runs, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() != experiment.ResultFile {
			return err
		}
		r, err := readRun(path)
		if err != nil {
			return err
		}
		if strings.HasPrefix(r.Commit, "unknown") || r.Commit == "" || r.Date == "" || r.Machine == "" {
			left = append(left, fmt.Sprintf("%s: found commit %q, date %q, machine %q, want all three",
				path, r.Commit, r.Date, r.Machine))
			return nil
		}
		below, err := filepath.Rel(runs, path)
		if err != nil {
			return err
		}
		r.Command, _, _ = strings.Cut(filepath.ToSlash(below), "/")
		all = append(all, r)
		return nil
	})
	if err == nil && len(all)+len(left) == 0 {
		err = fmt.Errorf("%s: found no %s in or below it, want a folder of runs", runs, experiment.ResultFile)
	}
	return all, left, err
}

// readRun reads the result of a run of a task, of a comparison, of hippo fit or of hippo forecast.
func readRun(path string) (result, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return result{}, err
	}
	var compared struct {
		Run                    *compare.Result
		Params                 int
		Baseline               *struct{ Bigram float64 }
		Machine, Version, Date string
		Plan                   json.RawMessage // of hippo fit and forecast
	}
	if err := json.Unmarshal(text, &compared); err != nil {
		return result{}, fmt.Errorf("%s: %w", path, err)
	}
	if c := compared.Run; c != nil {
		if c.ValidLoss == nil {
			return result{}, fmt.Errorf("%s: found no validation loss: %s", path, c.Diverged)
		}
		var speed []also
		if c.Tokens > 0 && c.Seconds > 0 {
			speed = []also{{Name: "tokens/s", Score: float64(c.Tokens) / c.Seconds, Unit: "tokens/s"}}
		}
		r := result{
			Also: speed,
			Task: "language", Model: c.Model, Seed: c.Seed, Params: compared.Params,
			Score: *c.ValidLoss, Unit: "nats", Loss: *c.ValidLoss, Steps: c.Steps, CPU: c.Seconds,
			Machine: compared.Machine, Commit: compared.Version, Date: compared.Date,
		}
		if b := compared.Baseline; b != nil {
			r.Also = append(r.Also, also{"bigram counts", b.Bigram, "nats"})
		}
		if t := c.Test; t != nil {
			r.Score, r.Unit, r.Loss = t.BitsByte, bitsPerByte, t.Loss
			r.Also = append([]also{{"by word", t.Word, "perplexity"}, {"by GPT-2 token", t.GPT2, "perplexity"},
				{"validation", *c.ValidLoss, "nats"}}, speed...)
		}
		return r, nil
	}
	if compared.Plan != nil {
		return readFit(filepath.Dir(path))
	}
	r, err := experiment.ReadResult(filepath.Dir(path))
	if err != nil {
		return result{}, err
	}
	unit, score := "%", func(s train.Score) float64 { return s.Accuracy }
	if r.Numbers {
		unit, score = "MSE", func(s train.Score) float64 { return s.Loss }
	} else if r.Coded != "" {
		unit, score = "bits/"+r.Coded, func(s train.Score) float64 { return s.Loss / math.Ln2 }
	}
	out := result{
		Task: r.Task, Model: r.Recipe, Seed: r.Seed, Params: r.Params,
		Score: score(r.Test), Unit: unit, Loss: r.Test.Loss, Steps: r.Steps, CPU: r.CPUSeconds,
		Machine: r.Machine, Commit: r.Version, Date: r.Date, Curve: momentsOf(r.Curve, score),
	}
	for _, x := range r.Simple {
		out.Also = append(out.Also, also{x.Name, score(train.Score{Loss: x.Loss, Accuracy: x.Accuracy}), unit})
	}
	for _, of := range append([]train.Score{r.Test}, scoresOf(r.Extra)...) {
		for _, g := range of.Tags {
			out.Groups = append(out.Groups, also{Name: g.Name, Score: g.Accuracy})
		}
	}
	for _, x := range r.Extra {
		if x.Count != r.Test.Count || x.Loss != r.Test.Loss { // else it is the same measurement with other groups
			out.Also = append(out.Also, also{Name: x.Name, Score: score(x.Score)})
		}
	}
	return out, nil
}

// scoresOf returns the scores of further measurements.
func scoresOf(extra []experiment.ExtraScore) (all []train.Score) {
	for _, x := range extra {
		all = append(all, x.Score)
	}
	return all
}

// readFit reads the result of hippo fit or forecast. For numbers, the score is the squared error of the first target in
// units of the training part's variance, and the loss is the pinball loss in units of its standard deviation.
func readFit(dir string) (result, error) {
	r, err := fit.ReadResult(dir)
	if err != nil {
		return result{}, err
	}
	c := &r.Config
	name := filepath.Base(c.Data[0])
	name = fmt.Sprintf("%s(%s", r.Task, strings.TrimSuffix(name, filepath.Ext(name)))
	out := result{Model: r.Model, Seed: c.Seed, Params: r.Params, Steps: r.Steps, CPU: r.CPUSeconds,
		Machine: r.Machine, Commit: r.Version, Date: r.Date}
	switch {
	case r.Classes != nil:
		out.Score, out.Unit, out.Loss = r.Classes.Accuracy, "%", r.Classes.Loss
	case len(r.Errors) > 0:
		network := r.Errors[0]
		name += "," + network.Target
		if r.Task == fit.Forecast {
			name += fmt.Sprintf(",horizon=%d", r.Plan.Horizon)
			scale := "series"
			if r.Plan.Local {
				scale = "window"
			}
			out.Model += fmt.Sprintf(",scale=%s,base=%s", scale, c.Base)
		}
		out.Score, out.Unit, out.Loss = network.MSE, "MSE", r.Pinball()
		inside := fmt.Sprintf("in the %.0f %% interval", network.Nominal)
		out.Also = append(out.Also, also{inside, network.Coverage, "%"})
		for _, e := range r.Errors[1:] {
			if e.Target == network.Target {
				out.Also = append(out.Also, also{e.Name, e.MSE, "MSE"})
			}
		}
	}
	if c.Rows > 0 {
		name += fmt.Sprintf(",rows=%d", c.Rows)
	}
	out.Task = name + ")"
	return out, nil
}

// merge adds found results, replacing older ones of the same run. It returns them sorted by command, date and seed.
func merge(results, found []result) []result {
	for _, r := range found {
		at := slices.IndexFunc(results, func(old result) bool { return old.key() == r.key() })
		if at < 0 {
			results = append(results, r)
		} else if results[at].Date <= r.Date {
			results[at] = r
		}
	}
	slices.SortStableFunc(results, func(a, b result) int {
		return cmp.Or(cmp.Compare(a.Command, b.Command), cmp.Compare(a.Date, b.Date), cmp.Compare(a.key(), b.key()))
	})
	return results
}

func readResults(file string) ([]result, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []result
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", file, n, err)
		}
		all = append(all, r)
	}
	return all, lines.Err()
}

func writeResults(file string, results []result) error {
	var text bytes.Buffer
	for _, r := range results {
		if err := json.NewEncoder(&text).Encode(r); err != nil {
			return err
		}
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}
