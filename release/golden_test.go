package release

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Tolerances of golden 05: logits 1e-4 absolute, gradients 1e-3 of each tensor's largest element, ids exact.
const (
	logitTol = 1e-4
	gradTol  = 1e-3
)

// goldenModel loads a golden case's model from one of its checkpoint files.
func goldenModel(t *testing.T, c golden.Case, file string) *model.Model {
	t.Helper()
	data, err := os.ReadFile(c.File("config.json"))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := ParseConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f, err := checkpoint.Open(c.File(file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Load(m, f); err != nil {
		t.Fatal(err)
	}
	return m
}

func ids32(x []int64) []int32 {
	out := make([]int32, len(x))
	for i, v := range x {
		out[i] = int32(v)
	}
	return out
}

func read(x *tensor.Tensor) []float32 {
	out := make([]float32, x.Len())
	x.CopyTo(out)
	return out
}

// gradient returns a copy of the gradient of x on a tape, or nil if there is none.
func gradient(tape *autograd.Tape, x *tensor.Tensor) []float32 {
	if g := tape.Grad(x); g != nil {
		return read(g)
	}
	return nil
}

// TestGoldenH3LM checks the logits, loss, every gradient, the state after the text, any chunks and the greedy text of
// the official hybrid language model.
func TestGoldenH3LM(t *testing.T) {
	golden.Run(t, "05_h3_lm", func(t *testing.T, c golden.Case) {
		m := goldenModel(t, c, c.Weights()[0])
		s := c.Shape("in/ids")
		b, l := s[0], s[1]
		ids, targets := ids32(c.I64("in/ids")), ids32(c.I64("in/targets"))

		tape := autograd.NewTape(cpu.Backend{})
		tape.Record(true)
		hidden := m.Forward(tape, ids, model.EqualRows(b, l))
		golden.CloseAbs(t, "logits", read(m.Logits(tape, hidden)), c.F64("out/logits"), logitTol)
		loss := m.Loss(tape, hidden, targets)
		golden.CloseAbs(t, "loss", read(loss), c.F64("out/loss"), 1e-5)
		tape.Backward(loss)
		m.Params("", func(name string, p *nn.Param) {
			if c.Has("grad/" + name) { // the case with GPT-2's vocabulary has none
				golden.Close(t, "gradient of "+name, gradient(tape, p.Tensor), c.F64("grad/"+name), gradTol)
			}
		})
		checkLayers(t, c, m, ids, b, l, logitTol)
		checkChunks(t, c, m, ids, b, l)
		if c.Has("in/prompt") {
			prompt := ids32(c.I64("in/prompt"))
			for _, chunk := range []int{1, 3, 8, 100} {
				golden := fmt.Sprintf("greedy ids, prompt in chunks of %d", chunk)
				want, masked := c.I64("out/greedy_ids"), c.I64("out/greedy_ids_masked")
				checkIDs(t, golden, greedy(m, prompt, len(want), chunk, m.Config.PaddedVocab()), want)
				checkIDs(t, golden+", masked", greedy(m, prompt, len(want), chunk, m.Config.VocabSize), masked)
			}
		}
	})
}

// checkLayers compares the outputs of every layer. The blocks of some releases return the stream before their MLP
// (residual) and the output of the MLP (hidden). Then it compares both. Otherwise it compares the stream after the
// layer.
func checkLayers(t *testing.T, c golden.Case, m *model.Model, ids []int32, b, l int, tol float64) {
	t.Helper()
	tape, rows := autograd.NewTape(cpu.Backend{}), model.EqualRows(b, l)
	if !c.Has("out/layer0_hidden") {
		return
	}
	stream := read(m.Embed(tape, ids, rows))
	add := func(x *tensor.Tensor) {
		for i, v := range read(x) {
			stream[i] += v
		}
	}
	layers := 0
	tape.Observe(func(name string, x *tensor.Tensor) {
		name, of, _ := strings.Cut(strings.TrimPrefix(name, "backbone.layers."), ".")
		layer := "out/layer" + name
		switch last := m.Blocks[min(layers, len(m.Blocks)-1)].MLP == nil; {
		case of == "mixer":
			if add(x); c.Has(layer + "_residual") {
				golden.Close(t, layer+"_residual", stream, c.F64(layer+"_residual"), tol)
			}
			if !last {
				return
			}
		case of == "mlp" && c.Has(layer+"_residual"):
			golden.Close(t, layer+"_hidden", read(x), c.F64(layer+"_hidden"), tol)
			add(x)
			layers++
			return
		case of == "mlp":
			add(x)
		default:
			return
		}
		golden.Close(t, layer+"_hidden", stream, c.F64(layer+"_hidden"), tol)
		layers++
	})
	m.Forward(tape, ids, rows)
	if layers != len(m.Blocks) {
		t.Errorf("%d layers are compared, want %d", layers, len(m.Blocks))
	}
}

// checkChunks runs the text in chunks of several lengths, recorded (with convolution) and not (with recurrence for
// short chunks). It compares the logits of each chunk and the final state with the official ones.
func checkChunks(t *testing.T, c golden.Case, m *model.Model, ids []int32, b, l int) {
	t.Helper()
	checkChunksWithin(t, c, m, ids, b, l, logitTol)
}

func checkChunksWithin(t *testing.T, c golden.Case, m *model.Model, ids []int32, b, l int, tol float64) {
	t.Helper()
	want := c.F64("out/logits")
	v := m.Config.PaddedVocab()
	for _, chunk := range []int{1, 5, 100, l} {
		for _, record := range []bool{false, true} {
			states, tape := newStates(m, b), autograd.NewTape(cpu.Backend{})
			tape.Record(record)
			for lo := 0; lo < l; lo += chunk {
				hi := min(l, lo+chunk)
				part, wantPart := make([]int32, 0, b*chunk), make([]float64, 0, b*chunk*v)
				for i := range b {
					part = append(part, ids[i*l+lo:i*l+hi]...)
					wantPart = append(wantPart, want[(i*l+lo)*v:(i*l+hi)*v]...)
				}
				got := read(m.Logits(tape, m.Forward(tape, part, rowsOf(hi-lo, states))))
				what := fmt.Sprintf("logits of [%d, %d), recording %v", lo, hi, record)
				golden.CloseAbs(t, what, got, wantPart, tol)
			}
			checkFinalState(t, c, m, states)
		}
	}
}

func checkFinalState(t *testing.T, c golden.Case, m *model.Model, states []*model.State) {
	t.Helper()
	for i := range m.Blocks {
		prefix := fmt.Sprintf("out/final_state/layer%d_", i)
		first := 0
		if c.Has(prefix + "lru") { // the reference had one state for all sequences, that of the last one
			first = len(states) - 1
		}
		parts := map[string][]float32{} // parts of all sequences, one after another
		for _, s := range states[first:] {
			s.Mixers[i].Tensors(func(name string, x *tensor.Tensor) { parts[name] = append(parts[name], read(x)...) })
		}
		for name, got := range parts {
			part := name
			name = name[strings.LastIndexByte(name, '.')+1:] // one of several mixers in parallel
			switch {
			case (name == "C" || name == "n") && c.Has(prefix+"m"):
				// Memories are divided by e^m, and m depends on the chunks of the text.
				want, m, wantM := c.F64(prefix+name), parts["m"], c.F64(prefix+"m")
				for j, of := 0, len(got)/len(m); j < len(got); j++ {
					got[j] *= float32(math.Exp(float64(m[j/of]) - wantM[j/of]))
				}
				golden.Close(t, prefix+name, got, want, 1e-4)
			case name == "shift" && c.Has(prefix+"att_shift"):
				of := map[string]string{"mixer.shift": "att_shift", "mlp.shift": "ffn_shift"}[part]
				golden.Close(t, prefix+of, got, c.F64(prefix+of), 1e-4)
			case name == "wkv" && c.Has(prefix+"wkv"): // (b, heads, values, keys); ours is (b, heads, keys, values)
				want, n := c.F64(prefix+"wkv"), c.Shape(prefix + "wkv")[3]
				var turned []float64
				for at := 0; at < len(want); at += n * n {
					turned = append(turned, transposed(want[at:][:n*n], n, n)...)
				}
				golden.Close(t, prefix+"wkv", got, turned, 1e-4)
			case name == "shift" && c.Has(prefix+"shift"):
				golden.Close(t, prefix+name, got, c.F64(prefix+"shift"), 1e-4)
			case name == "diag" && c.Has(prefix+"diag_re"):
				re, im := make([]float32, len(got)/2), make([]float32, len(got)/2)
				for j := range re {
					re[j], im[j] = got[2*j], got[2*j+1]
				}
				golden.Close(t, prefix+"re", re, c.F64(prefix+"diag_re"), 1e-4)
				golden.Close(t, prefix+"im", im, c.F64(prefix+"diag_im"), 1e-4)
			case (name == "ssm" || name == "lru") && c.Has(prefix+name):
				want := c.F64(prefix + name)
				golden.Close(t, prefix+name, got, want[len(want)-len(got):], 1e-4)
			case name == "conv" && c.Has(prefix+"conv"):
				// (b, d, d_conv), in most families with one input more than is needed; ours is (b, d_conv-1, d)
				s := c.Shape(prefix + "conv")
				kept := len(got) / (len(states) - first) / s[1]
				conv := c.F64(prefix + "conv")
				var want []float64
				for bi := first; bi < s[0]; bi++ {
					for j := s[2] - kept; j < s[2]; j++ {
						for i := range s[1] {
							want = append(want, conv[(bi*s[1]+i)*s[2]+j])
						}
					}
				}
				golden.Close(t, prefix+name, got, want, 1e-4)
			case (name == "k" || name == "v") && c.Has(prefix+"kv"):
				s := c.Shape(prefix + "kv") // (b, l, 2, heads, head_dim); ours is (b, heads, l, head_dim)
				kv, which := c.F64(prefix+"kv"), map[string]int{"k": 0, "v": 1}[name]
				var want []float64
				for bi := range states {
					for h := range s[3] {
						for p := range s[1] {
							want = append(want, kv[(((bi*s[1]+p)*2+which)*s[3]+h)*s[4]:][:s[4]]...)
						}
					}
				}
				golden.Close(t, prefix+name, got, want, 1e-4)
			}
		}
	}
}

// greedy extends prompt to n ids, choosing among the first vocab logits.
func greedy(m *model.Model, prompt []int32, n, chunk, vocab int) []int32 {
	state, tape := m.NewState(), autograd.NewTape(cpu.Backend{})
	out := slices.Clone(prompt)
	var logits []float32
	for fed := 0; len(out) < n; {
		next := out[fed:min(len(out), fed+chunk)]
		tape.Reset()
		rows := model.OneRow(len(next), state)
		logits = read(m.LastLogits(tape, m.Forward(tape, next, rows), rows))
		if fed += len(next); fed < len(out) {
			continue
		}
		best := 0
		for i, x := range logits[:vocab] {
			if x > logits[best] {
				best = i
			}
		}
		out = append(out, int32(best))
	}
	return out
}

func checkIDs(t *testing.T, what string, got []int32, want []int64) {
	t.Helper()
	if !slices.Equal(got, ids32(want)) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// TestGoldenLayouts checks that all file layouts in which H3 was published contain the same model.
func TestGoldenLayouts(t *testing.T) {
	golden.Run(t, "05_h3_lm", func(t *testing.T, c golden.Case) {
		folder := strings.TrimSuffix(c.Path, ".safetensors")
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		want := goldenModel(t, c, c.Weights()[0]).Tensors()
		found := 0
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); ext != ".pt" && ext != ".ckpt" {
				continue
			}
			found++
			for i, x := range goldenModel(t, c, e.Name()).Tensors() {
				if string(x.Data) != string(want[i].Data) {
					t.Errorf("%s: %s differs from model.pt", e.Name(), x.Name)
				}
			}
		}
		if found == 0 {
			t.Fatalf("no checkpoint in %s", folder)
		}
	})
}

// TestGoldenInfer checks that the configuration inferred from the tensors is that of the constructor.
func TestGoldenInfer(t *testing.T) {
	golden.Run(t, "05_h3_lm", func(t *testing.T, c golden.Case) {
		want := goldenModel(t, c, c.Weights()[0]).Config
		f, err := checkpoint.Open(c.File(c.Weights()[0]))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		got, err := InferConfig(f, want.NumHeads)
		if err != nil {
			t.Fatal(err)
		}
		if got.PaddedVocab() != want.PaddedVocab() {
			t.Errorf("padded vocabulary: got %d, want %d", got.PaddedVocab(), want.PaddedVocab())
		}
		got.VocabSize = want.VocabSize // only the padded size is visible
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}
