package text

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tensor"
	"github.com/hippo-ssm/hippo/train"
)

// TestStatesInFiles checks that files of states that do not fit the run are errors, and that those of earlier versions
// are read.
func TestStatesInFiles(t *testing.T) {
	m := toymodel.New(t, "h3,attention", 23)
	states := newStates(m, 2)
	rows := &model.Rows{}
	for _, s := range states {
		rows.Add(3, s)
	}
	m.Forward(m.NewTape(), toymodel.Text(1, 6, 23), rows)
	path := filepath.Join(t.TempDir(), carriedFile)
	put := func(change func(all []checkpoint.Tensor) []checkpoint.Tensor) {
		t.Helper()
		if err := train.WriteTensors(path, change(carriedTensors(states))); err != nil {
			t.Fatal(err)
		}
	}
	for want, change := range map[string]func(all []checkpoint.Tensor) []checkpoint.Tensor{
		"": func(all []checkpoint.Tensor) []checkpoint.Tensor { return all },
		": missing 1.layers.0.": func(all []checkpoint.Tensor) []checkpoint.Tensor {
			all = slices.DeleteFunc(all, func(x checkpoint.Tensor) bool {
				return strings.HasPrefix(x.Name,
					"1.layers.0.")
			})
			return append(all, checkpoint.NewTensor("1.x", []int{4000}, make([]float32, 4000)))
		},
		`: found "2.layers.0.x", want states of 2 sequences`: func(all []checkpoint.Tensor) []checkpoint.Tensor {
			return append(all, checkpoint.NewTensor("2.layers.0.x", []int{1}, []float32{0}))
		},
		`: found "-1.layers.0.x", want states of 2`: func(all []checkpoint.Tensor) []checkpoint.Tensor {
			return append(all, checkpoint.NewTensor("-1.layers.0.x", []int{1}, []float32{0}))
		},
		`: found "x" of shape [4 1], want one of 2 sequences`: func(all []checkpoint.Tensor) []checkpoint.Tensor {
			return append(all, checkpoint.NewTensor("x", []int{4, 1}, make([]float32, 4)))
		},
		`: found "x" of shape [], want one of 2`: func(all []checkpoint.Tensor) []checkpoint.Tensor {
			return append(all, checkpoint.NewTensor("x", nil, make([]float32, 1)))
		},
		"x": func(all []checkpoint.Tensor) []checkpoint.Tensor {
			return append(all, checkpoint.NewTensor("x", []int{2, 1}, make([]float32, 2)))
		},
		"state.safetensors: found ": func(all []checkpoint.Tensor) []checkpoint.Tensor {
			return all[:len(all)/2]
		},
	} {
		put(change)
		got, err := readCarried(path, m, 2, 9)
		if want == "" {
			if err != nil || len(got) != 2 || got[0].Position != 3 {
				t.Errorf("%v, %v", got, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := readCarried(path+"x", m, 2, 9); err == nil {
		t.Error("no file")
	}
	// In the format of earlier versions, without positions.
	var together []checkpoint.Tensor
	one, two := map[string][]float32{}, map[string][]float32{}
	for i, of := range []map[string][]float32{one, two} {
		states[i].Tensors(func(name string, x *tensor.Tensor) {
			shape := append([]int{2}, x.Shape()...)
			if strings.HasSuffix(name, ".position") {
				shape = shape[:1]
			}
			if of[name] = x.Floats(); name != model.PositionName && i == 1 {
				together = append(together, checkpoint.NewTensor(name, shape, slices.Concat(one[name], of[name])))
			}
		})
	}
	if err := train.WriteTensors(path, together); err != nil {
		t.Fatal(err)
	}
	got, err := readCarried(path, m, 2, 3)
	if err != nil || got[1].Position != 3 {
		t.Fatal(got, err)
	}
	for i, of := range []map[string][]float32{one, two} {
		got[i].Tensors(func(name string, x *tensor.Tensor) {
			if !slices.Equal(x.Floats(), of[name]) {
				t.Errorf("%s of sequence %d differs", name, i)
			}
		})
	}
}

// TestPlacesOfRuns checks the place in the text that a checkpoint stores, and the errors for places from which a run
// cannot continue.
func TestPlacesOfRuns(t *testing.T) {
	for _, carry := range []bool{false, true} {
		c := swift(t, "mamba")
		c.Train.CarryState = carry
		r := newRun(t, c)
		for range 3 {
			if _, _, err := r.loop.Step(); err != nil {
				t.Fatal(err)
			}
		}
		w, dir := r.work, t.TempDir()
		w.sampled = "a sample"
		place, err := w.Place(dir)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(place)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, carriedFile)); (err == nil) != carry {
			t.Errorf("carry %v: the file of states: %v", carry, err)
		}
		next := newRun(t, c).work
		if err := next.Return(text, dir); err != nil || next.sampled != "a sample" || (next.carried != nil) != carry {
			t.Fatalf("carry %v: %v", carry, err)
		}
		for _, w := range []*Work{w, next} {
			if _, err := w.Read(0); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(w.inputs, next.inputs) || !slices.Equal(w.targets, next.targets) {
			t.Error("the text goes on elsewhere")
		}
		for i := range w.carried {
			if w.carried[i].Position != next.carried[i].Position {
				t.Error("a state goes on elsewhere")
			}
		}
		for what, change := range map[string]string{
			": found a checkpoint of tokenizer x, the run now has ": strings.Replace(string(text),
				w.Data.Tokenizer.Fingerprint(),
				"x", 1), ": work: ": `{"sample": 7}`,
			": the run cannot be resumed with other data: ": strings.Replace(string(text), `"data":{`,
				`"data":{"position":-7,`, 1),
		} {
			if what[2:5] == "the" {
				change = `{"tokenizer_fingerprint": "` + w.Data.Tokenizer.Fingerprint() + `"}`
			}
			if err := next.Return([]byte(change), dir); err == nil || !strings.HasPrefix(err.Error(), dir) ||
				!strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v, want %q", change, err, what)
			}
		}
	}
}

// TestSavedAdapters checks the content of an adapter's checkpoint, and how it is read again.
func TestSavedAdapters(t *testing.T) {
	base := copied(t, "06_mamba_lm_a", "model.safetensors", "config.json")
	for _, name := range []string{"a name", base + "/."} {
		c := swift(t, "h3")
		if err := c.StartFrom(name, base); err != nil {
			t.Fatal(err)
		}
		c.Data, c.LoRA = []string{filepath.Join(folderOf(t, map[string]string{"t": strings.Repeat("some text, ",
			40)}), "t")},
			LoRA{Rank: 2, Base: "float32", Alpha: 3, Dropout: 0.25}
		r := newRun(t, c)
		w := r.work
		if _, _, err := r.loop.Step(); err != nil {
			t.Fatal(err)
		}
		n := 0
		w.Params("", func(_ string, p *nn.Param) {
			if p.NeedsGrad() {
				n += p.Len()
			}
		})
		if n != w.params.Trained || n != w.Model.Adapter().NumParams() {
			t.Errorf("%d parameters are trained, %+v", n, w.params)
		}
		dir := filepath.Join(t.TempDir(), "adapter")
		if _, err := w.loadBest(dir); !os.IsNotExist(err) {
			t.Errorf("no adapter: %v", err)
		}
		if err := errors.Join(os.Mkdir(dir, 0o777), w.SaveModel(dir)); err != nil {
			t.Fatal(err)
		}
		a, err := release.ReadAdapter(dir)
		if err != nil || a.Name != strings.TrimSuffix(name, "/.") || a.Path != base ||
			a.Weights != w.Config.Base.Weights || a.Rank != 2 ||
			a.Alpha != 3 || a.Dropout != 0.25 {
			t.Errorf("%+v, %v", a, err)
		}
		want := of(w.Model.Adapter())
		best, err := w.loadBest(dir)
		if err != nil || !bytes.Equal(of(best.Adapter()), want) || best == w.Model {
			t.Errorf("the best has another adapter: %v", err)
		}
		m, err := model.New(w.Config.Model)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Config.loadLast(m, dir); err != nil || !bytes.Equal(of(m.Adapter()), want) ||
			m.WeightsFingerprint() != w.Config.Base.Weights {
			t.Errorf("the last has another adapter: %v", err)
		}
		if tok, err := w.Config.runTokenizer(); err != nil || tok.Fingerprint() != w.Data.Tokenizer.Fingerprint() {
			t.Errorf("the tokenizer is %v, %v", tok, err)
		}
		if card := string(r.card(Result{})); !strings.Contains(card,
			fmt.Sprintf("| adapter | %s parameters, changes of rank 2 "+
				"of %d matrices, alpha 3; all else is frozen, in float32 |\n", status.Count(n),
				len(w.Model.Adapter().Changes))) {
			t.Errorf("the card says\n%s", card)
		}
		run, err := w.Config.probes(w.Config.Model)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := run.probe(run.shape, run.layers, 2, 12); err != nil || p.bytes != r.loop.Tape().Bytes() {
			t.Errorf("a probe takes %d bytes, %v, an update %d", p.bytes, err, r.loop.Tape().Bytes())
		}
		names, err := w.Config.modules(w.Model)
		if err != nil || len(names) == 0 {
			t.Errorf("%d names of matrices, %v", len(names), err)
		}
		w.Config.LoRA.Rank = 0
		if names, err := w.Config.modules(w.Model); err != nil || names != nil {
			t.Errorf("without an adapter: %v, %v", names, err)
		}
		w.Config.LoRA.Rank, w.Config.Base.Path = 2, filepath.Join(base, "gone")
		if _, err := w.Config.runTokenizer(); err == nil || !strings.Contains(err.Error(),
			"cannot be resumed without it") {
			t.Errorf("without its model: %v", err)
		}
		if err := w.Config.loadLast(m, dir); err == nil {
			t.Error("the last without its model")
		}
	}
}

// of returns the elements of an adapter.
func of(a interface {
	Params(prefix string, visit nn.Visitor)
}) (all []byte) {
	a.Params("", func(name string, p *nn.Param) { all = fmt.Append(all, name, p.Floats()) })
	return all
}
