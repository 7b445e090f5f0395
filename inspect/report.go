// Package inspect describes a path without loading weights. The path may be a model's folder, a training run, the
// network of a task, a checkpoint in any format, a tokenizer or a configuration.
package inspect

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/experiment"
	"github.com/hippo-ssm/hippo/fit"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release/hub"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// The kinds of reports.
const (
	kindFolder     = "folder" // of a model or of a training run
	kindCheckpoint = "checkpoint"
	kindTask       = "task"
	kindFit        = "fit" // a run of hippo fit or hippo forecast
	kindTokenizer  = "tokenizer"
	kindConfig     = "configuration"
	kindPublished  = "published" // a model of a hub's cache that is not supported
)

// Report describes the file or folder at a path.
type Report struct {
	Path   string `json:"path"`
	Kind   string `json:"kind"`
	Folder string `json:"folder,omitempty"` // folder of the model
	Family string `json:"family,omitempty"` // name in its configuration or file

	Weights   *Weights           `json:"weights,omitempty"`
	Model     *Model             `json:"model,omitempty"`
	Config    string             `json:"config,omitempty"` // where the shape of a checkpoint's model was found
	Tokenizer *Tokenizer         `json:"tokenizer,omitempty"`
	LeftOut   []string           `json:"left_out,omitempty"` // tensors of other parts, by prefix
	Template  int                `json:"chat_template_bytes,omitempty"`
	Task      *experiment.Result `json:"task,omitempty"`
	Fit       *fit.Result        `json:"fit,omitempty"`
	Published *hub.Shown         `json:"published,omitempty"`         // information in a hub's cache
	NoTexts   string             `json:"tokenizer_problem,omitempty"` // why the tokenizer of a GGUF file cannot be read
	Problem   string             `json:"problem,omitempty"`           // why the model or other parts are missing

	net     *model.Model
	network *model.Network
	tok     tokenizer.Tokenizer
}

// Weights describes the tensors of files.
type Weights struct {
	Format    string         `json:"format"`
	Bytes     int            `json:"bytes"`
	Numbers   int            `json:"numbers"`
	Precision string         `json:"precision"` // type of most numbers
	InMemory  int            `json:"memory"`    // bytes when the model runs without --precision: see hippo.Stored
	Kinds     map[string]int `json:"kinds"`     // number of tensors by type
	Tensors   []Tensor       `json:"tensors"`

	integers bool // some weights stay integers
}

// Tensor is a tensor of a file.
type Tensor struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Shape []int  `json:"shape"`
	Bytes int    `json:"bytes"`
}

// Model describes the shape of a model.
type Model struct {
	Layers     []string        `json:"layers"` // mixer of each layer
	Parameters int             `json:"parameters"`
	Parts      map[string]int  `json:"parameters_by_part"`
	StateBytes int             `json:"state_bytes"`           // per sequence
	TokenBytes int             `json:"state_bytes_per_token"` // growth for each token
	Config     json.RawMessage `json:"config"`                // in the form that hippo writes
}

// Tokenizer describes a tokenizer.
type Tokenizer struct {
	Kind        string `json:"kind"`
	Tokens      int    `json:"tokens"`
	EndOfText   *int32 `json:"end_of_text,omitempty"`
	Fingerprint string `json:"fingerprint"`
}

func (r *Report) setWeights(f *checkpoint.File) {
	w := &Weights{Format: f.Format(), Bytes: f.Size(), Kinds: map[string]int{}}
	if f.Root() != "" {
		w.Format += ", " + f.Root()
	}
	numbers := map[string]int{}
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		kind := string(x.DType)
		w.Numbers += x.Elements()
		size := model.StoredBytes(x)
		w.InMemory += size
		w.integers = w.integers || size < 2*x.Elements()
		w.Kinds[kind]++
		numbers[kind] += x.Elements()
		w.Tensors = append(w.Tensors, Tensor{name, kind, x.Shape, len(x.Data)})
	}
	for _, kind := range slices.Sorted(maps.Keys(numbers)) {
		if w.Precision == "" || numbers[kind] > numbers[w.Precision] {
			w.Precision = kind
		}
	}
	r.Weights = w
}

func (r *Report) setModel(m *model.Model) {
	size, _ := m.Growth()
	info := &Model{Parameters: m.NumParams(), StateBytes: m.NewState().Size(), TokenBytes: size,
		Config: m.Config.JSON()}
	info.Layers = kinds(m.Blocks)
	_, info.Parts = paramsByPart(m)
	r.Model, r.net = info, m
}

func (r *Report) setTokenizer(tok tokenizer.Tokenizer) {
	if r.tok = tok; tok == nil {
		return
	}
	r.Tokenizer = &Tokenizer{Kind: tok.Kind(), Tokens: tok.VocabSize(), Fingerprint: tok.Fingerprint()}
	if id, ok := tok.EndOfText(); ok {
		r.Tokenizer.EndOfText = &id
	}
}

// Print prints the report as a table. It omits what a problem made unavailable.
func (r *Report) Print(out io.Writer) error {
	t := status.NewTable(out)
	if err := r.print(t); err != nil {
		return err
	}
	if p := r.Published; p != nil {
		t.Row("published", "%s, commit %s", brief.Line(p.Name), p.Commit)
		if err := printFiles(out, t, *p); err != nil {
			return err
		}
	} else if err := t.Flush(); err != nil {
		return err
	}
	switch {
	case r.Kind == kindCheckpoint:
		return r.printTensors(out)
	case r.Kind == kindFit && r.Fit != nil:
		return r.Fit.Print(out)
	}
	return nil
}

// print adds the report to a table, without the information in a hub's cache.
func (r *Report) print(t status.Table) error {
	switch r.Kind {
	case kindTask:
		r.printTask(t)
		return nil
	case kindFit:
		r.printFit(t)
		return nil
	case kindTokenizer:
		t.Row("file", "%s", r.Path)
		PrintTokenizer(t, r.tok)
		return nil
	case kindConfig:
		t.Row("configuration", "%s", r.Path)
		r.printFamily(t)
		t.Row("layers", "%s", r.Config)
		t.Row("note", "for the weights, name the folder or their file")
		return nil
	case kindFolder:
		t.Row("model", "%s", r.Folder)
		r.printFamily(t)
	}
	if w := r.Weights; w != nil {
		r.printWeights(t, w)
	}
	if r.Kind == kindCheckpoint {
		r.printFamily(t)
		if r.net == nil {
			t.Row("model", "not read: %v", brief.Line(r.Problem))
		} else {
			t.Row("model", "with the shape in %s", r.Config)
		}
	}
	if r.net != nil {
		PrintModel(t, r.net)
		as := "as float32; --precision bf16 or int8 for less"
		switch {
		case r.Weights.integers:
			as = "as in the file, with inputs of products in 8 bits"
		case r.Weights.InMemory < 4*r.Weights.Numbers:
			as = "as in the file, with the results of float32; --precision int8 for less"
		}
		if len(r.LeftOut) > 0 {
			t.Row("left out", "%s: tensors of other parts than the language model",
				brief.Line(strings.Join(r.LeftOut, ", ")))
		}
		t.Row("memory", "weights of %s when it runs, %s", status.Bytes(r.Weights.InMemory), as)
	}
	switch {
	case r.NoTexts != "":
		t.Row("tokenizer", "not read: %v", brief.Line(r.NoTexts))
	case r.tok != nil || r.net != nil && r.Kind == kindFolder:
		PrintTokenizer(t, r.tok)
	}
	if r.Template > 0 {
		t.Row("chat template", "%d characters", r.Template)
	}
	if r.Kind == kindFolder {
		return printRun(t, r.Path)
	}
	return nil
}

func (r *Report) printFamily(t status.Table) {
	if r.Family != "" {
		t.Row("family", "%s", brief.Line(r.Family))
	}
}

func (r *Report) printWeights(t status.Table, w *Weights) {
	size := w.Format + ", " + status.Bytes(w.Bytes)
	if r.Kind == kindFolder {
		t.Row("weights", "%s", size)
	} else {
		t.Row("file", "%s, %s", r.Path, size)
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(w.Kinds)) {
		parts = append(parts, fmt.Sprintf("%d of %s", w.Kinds[kind], kind))
	}
	t.Row("tensors", "%d with %s numbers (%d): %s", len(w.Tensors), status.Count(w.Numbers), w.Numbers,
		strings.Join(parts, ", "))
}

// printTensors lists the first tensors.
func (r *Report) printTensors(out io.Writer) error {
	all := r.Weights.Tensors
	var lines [][]string
	for _, x := range all[:min(len(all), brief.MaxItems)] {
		lines = append(lines, []string{brief.Line(x.Name), x.Kind, fmt.Sprint(x.Shape), status.Bytes(x.Bytes)})
	}
	fmt.Fprintln(out)
	if err := status.Grid(out, []string{"tensor", "kind", "shape", "size"}, lines, false); err != nil {
		return err
	}
	if more := len(all) - len(lines); more > 0 {
		fmt.Fprintf(out, "and %d more\n", more)
	}
	return nil
}
