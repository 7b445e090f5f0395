package experiment

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/labelled"
)

// ResultFile is the name of the result file in the folder of a run.
const ResultFile = "result.json"

// Result is the outcome of a run of a task, with everything needed to repeat it.
type Result struct {
	Task      string        `json:"task"`
	Recipe    string        `json:"recipe"`
	Seed      uint64        `json:"seed"`
	Params    int           `json:"params"`
	Numbers   bool          `json:"numbers"`         // numbers are predicted, not classes
	Coded     string        `json:"coded,omitempty"` // unit that is coded, if targets are scored by bits: see task.Set
	Test      train.Score   `json:"test"`
	Valid     *train.Score  `json:"valid,omitempty"` // of the network that was tested
	Extra     []ExtraScore  `json:"extra,omitempty"`
	Simple    []task.Simple `json:"simple,omitempty"`    // simple methods, on the same test
	Published float64       `json:"published,omitempty"` // accuracy in percent, or MSE, for exactly these settings
	Where     string        `json:"where,omitempty"`
	// Changed lists settings of the run that differ from those of the publication, as "key: a -> b".
	Changed []string `json:"changed,omitempty"`

	Steps        int     `json:"steps"`
	Epochs       float64 `json:"epochs"`
	TrainSeconds float64 `json:"train_seconds"` // updates alone, by the run's clock
	Seconds      float64 `json:"seconds"`       // the whole run, by wall clock
	CPUSeconds   float64 `json:"cpu_seconds"`   // of the process
	train.Maker
	Date   string        `json:"date"`
	Config Config        `json:"config"`
	Curve  []train.Point `json:"curve"`

	Forecasts []Forecast `json:"forecasts,omitempty"` // a few, for forecasting tasks
}

// ExtraScore is a further measurement of a task.
type ExtraScore struct {
	Name string `json:"name"`
	train.Score
	Published float64 `json:"published,omitempty"`
}

func newResult(c Config, s *Settings, set *task.Set, params int) *Result {
	r := &Result{
		Task: c.Task, Recipe: c.Recipe, Seed: c.Seed, Params: params, Numbers: set.Numbers,
		Coded: set.Coded, Simple: set.Simple,
		Published: s.Recipe.Published, Where: s.Recipe.Where,
		Maker: train.ThisMaker(), Config: c,
	}
	if r.Published == 0 {
		r.Published, r.Where = set.Published, set.Where
	}
	return r
}

// write writes the result of a run.
func (r *Result) write(dir string) error { return disk.WriteJSON(filepath.Join(dir, ResultFile), r) }

// ReadResult reads the result of the run in a folder. The error is os.ErrNotExist if the run has not finished.
func ReadResult(dir string) (*Result, error) {
	path := filepath.Join(dir, ResultFile)
	r := &Result{Config: Config{Config: labelled.Default()}}
	if err := disk.ReadJSON(path, r); err != nil {
		return nil, err
	}
	r.Config.Settle()
	r.Config.Out = dir                                // the folder may have been moved
	if s, err := Find(r.Task, r.Recipe); err == nil { // else this program does not have the task
		if err := r.settlePublished(s); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return r, nil
}

// TestExample returns test example i of the run's task.
func (r *Result) TestExample(ctx context.Context, i int) (*task.Example, error) {
	set, err := r.Config.Open(ctx)
	if err != nil {
		return nil, err
	}
	if i < 0 || i >= set.Test.Len() {
		return nil, fmt.Errorf("example: found %d, want 0 to %d", i, set.Test.Len()-1)
	}
	ex := &task.Example{}
	set.Test.Example(i, ex)
	return ex, nil
}

// same returns an error that names the settings in which two runs differ, unless these do not affect the result.
func (c Config) same(other Config) error {
	if c.Task != other.Task || c.Recipe != other.Recipe {
		return fmt.Errorf("%s %s, now %s %s", other.Task, other.Recipe, c.Task, c.Recipe)
	}
	other.Out, other.Data, other.Memory = c.Out, c.Data, c.Memory
	if diff := config.Diff(&other, &c); len(diff) > 0 {
		return fmt.Errorf("%s", strings.Join(diff, ", "))
	}
	return nil
}

// Folder returns the default folder of the run under root, or under runs/task if root is "". If a folder named as in
// earlier versions exists, whose name must be quoted in a shell, it returns that one.
func (s *Settings) Folder(root string) string {
	if root == "" {
		root = filepath.Join("runs", "task")
	}
	run := fmt.Sprintf("%s-seed%d", s.Config.Recipe, s.Config.Seed)
	dir := filepath.Join(root, plainName(s.Config.Task), run)
	if old := filepath.Join(root, s.Config.Task, run); !disk.IsFolder(dir) && disk.IsFolder(old) {
		return old
	}
	return dir
}

// plainName returns a folder name for a task with options, such as digits-copies=16 for digits(copies=16). It needs no
// quotes in a shell and is valid on every system. Special characters are escaped as in URLs, such as %20.
func plainName(entry string) string {
	name, options, _ := strings.Cut(strings.TrimSuffix(entry, ")"), "(")
	if options != "" {
		name += "-" + options
	}
	var b strings.Builder
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.,=+", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
