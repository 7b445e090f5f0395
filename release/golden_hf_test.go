package release

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// hfCase is the configuration of a golden case.
type hfCase struct {
	Prefill   int     `json:"prefill_len"`
	Deviation float64 `json:"float32_reference_deviation"` // error of the reference in float32
}

// tolerance returns the tolerance of logits.
func (c *hfCase) tolerance() float64 { return max(logitTol, 5*c.Deviation) }

// hfFolder returns the folder of a case's checkpoint.
func hfFolder(c golden.Case) string { return filepath.Dir(c.File(model.ConfigFile)) }

// TestGoldenHF checks that a model in the layout of the transformers library has the official logits, in any chunks and
// step by step, and the official states, loss, gradients and greedy text.
func TestGoldenHF(t *testing.T) {
	golden.Of(t, "attention", "window-attention", "gated-conv")
	golden.Run(t, "13_hf_", func(t *testing.T, c golden.Case) {
		var meta hfCase
		c.Config(&meta)
		m, p := openHF(t, hfFolder(c))
		if c.Has("out/logits_grouped_norm") {
			checkGroupedNorm(t, c, m, meta.tolerance())
			m, p = openHF(t, withoutGroups(t, hfFolder(c)))
		}
		s := c.Shape("in/ids")
		b, l := s[0], s[1]
		ids := ids32(c.I64("in/ids"))
		checkGradients(t, c, m, p, ids, b, l, meta.tolerance())
		checkLayers(t, c, m, ids, b, l, meta.tolerance())
		checkChunksWithin(t, c, m, ids, b, l, meta.tolerance())
		if c.Has("out/logits_cached") {
			checkCached(t, c, m, ids, b, l, meta)
		}
		long := ids32(c.I64("in/ids_long"))
		// With six times as many positions, more heads have outputs that are almost zero. Their norm makes errors
		// larger.
		golden.CloseAbs(t, "logits_long", logitsOf(m, long, 1), c.F64("out/logits_long"),
			max(logitTol, 10*meta.Deviation))
		checkGreedy(t, c, m, "out/greedy_ids")
	})
}

// openHF opens a folder. It also returns the names of its family.
func openHF(t *testing.T, dir string) (*model.Model, published) {
	t.Helper()
	m, _, err := LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	p, err := readConfig(filepath.Join(dir, model.ConfigFile), 0)
	if err != nil {
		t.Fatal(err)
	}
	return m, p
}

// withoutGroups returns a copy of a folder whose configuration requests the norm over all channels.
func withoutGroups(t *testing.T, dir string) string {
	t.Helper()
	out := t.TempDir()
	for _, name := range []string{model.ConfigFile, model.WeightsFile} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == model.ConfigFile {
			data = bytes.Replace(data, []byte("{"), []byte(`{"grouped_norm": false, `), 1)
		}
		if err := os.WriteFile(filepath.Join(out, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// checkGroupedNorm compares a loaded Mamba-2 with the code that trains such models.
func checkGroupedNorm(t *testing.T, c golden.Case, m *model.Model, tol float64) {
	t.Helper()
	ids, long := ids32(c.I64("in/ids")), ids32(c.I64("in/ids_long"))
	golden.CloseAbs(t, "logits, norm per group", logitsOf(m, ids, c.Shape("in/ids")[0]),
		c.F64("out/logits_grouped_norm"), tol)
	golden.CloseAbs(t, "logits_long, norm per group", logitsOf(m, long, 1), c.F64("out/logits_long_grouped_norm"), tol)
	checkGreedy(t, c, m, "out/greedy_ids_grouped_norm")
}

// logitsOf returns the logits of b sequences.
func logitsOf(m *model.Model, ids []int32, b int) []float32 {
	tape := autograd.NewTape(cpu.Backend{})
	return read(m.Logits(tape, m.Forward(tape, ids, model.EqualRows(b, len(ids)/b))))
}

func checkGreedy(t *testing.T, c golden.Case, m *model.Model, want string) {
	t.Helper()
	prompt, ids := ids32(c.I64("in/prompt")), c.I64(want)
	for _, chunk := range []int{1, 3, 100} {
		checkIDs(t, fmt.Sprintf("%s, prompt in chunks of %d", want, chunk),
			greedy(m, prompt, len(ids), chunk, m.Config.PaddedVocab()), ids)
	}
}

// checkGradients compares logits, loss and the gradients of a case.
func checkGradients(t *testing.T, c golden.Case, m *model.Model, p published, ids []int32, b, l int, tol float64) {
	t.Helper()
	tape := autograd.NewTape(cpu.Backend{})
	tape.Record(true)
	hidden := m.Forward(tape, ids, model.EqualRows(b, l))
	golden.CloseAbs(t, "logits", read(m.Logits(tape, hidden)), c.F64("out/logits"), tol)
	labels := ids32(c.I64("in/labels"))
	targets := make([]int32, len(labels))
	for i := range labels {
		targets[i] = engine.Ignore
		if (i+1)%l != 0 && labels[i+1] >= 0 {
			targets[i] = labels[i+1]
		}
	}
	loss := m.Loss(tape, hidden, targets)
	golden.CloseAbs(t, "loss", read(loss), c.F64("out/loss"), 1e-5)
	tape.Backward(loss)
	names := p.names
	if c.Has("grad/emb.weight") { // in the authors' layout
		names = rwkv7PthNames()
	}
	m.Params("", func(name string, q *nn.Param) {
		var want []float64
		for _, s := range names.sources(&m.Backbone, name) {
			if g, ok := latentGradient(c, p.names.latent, s); ok {
				want = append(want, g...)
				continue
			}
			s = gradientOf(c, s)
			if !c.Has(s.Name) {
				return
			}
			g := c.F64(s.Name)
			if hasSuffix(s.Name, names.turned) {
				g = transposed(g, q.Dim(0), q.Dim(1))
			}
			n := len(g) / max(1, s.Of)
			want = append(want, g[s.Part*n:][:n]...)
		}
		golden.Close(t, "gradient of "+name, gradient(tape, q.Tensor), want, gradTol)
	})
}

// latentGradient returns the gradient of a head's matrix in one of the parts into which latentHeads.read divides a
// tensor.
func latentGradient(c golden.Case, l *latentHeads, s model.Source) ([]float64, bool) {
	whole, ofKeys := strings.CutSuffix(s.Name, latentKeys)
	whole, ofValues := strings.CutSuffix(whole, latentValues)
	if l == nil || !ofKeys && !ofValues {
		return nil, false
	}
	g := c.F64("grad/" + whole)[s.Part*(l.keys+l.values)*l.rank:]
	if ofKeys {
		return transposed(g[:l.keys*l.rank], l.rank, l.keys), true
	}
	return g[l.keys*l.rank:][:l.values*l.rank], true
}

// oneExpert matches matrices of experts that are stored as separate tensors.
var oneExpert = regexp.MustCompile(`^(.*\.mlp\.experts\.)(\d+)\.(gate|up|down)_proj\.weight$`)

// classNames maps tensors of Olmo Hybrid's files to their names in its class, in which the filters of queries, keys and
// values are a single tensor. Values are twice as many as keys.
var classNames = map[string]model.Source{
	"attention_layer_norm": {Name: "input_layernorm"}, "feedforward_layer_norm": {Name: "post_attention_layernorm"},
	"q_conv1d": {Name: "conv1d", Of: 4}, "k_conv1d": {Name: "conv1d", Part: 1, Of: 4},
	"v_conv1d": {Name: "conv1d", Part: 1, Of: 2},
}

// gradientOf returns the gradient of a tensor. Some cases use the name in the class, not the name in the file.
func gradientOf(c golden.Case, s model.Source) model.Source {
	s.Name = "grad/" + strings.Replace(s.Name, "model.language_model.", "model.", 1)
	for file, at := range classNames {
		if other := strings.Replace(s.Name, file, at.Name, 1); other != s.Name && !c.Has(s.Name) && c.Has(other) {
			s.Name, s.Part, s.Of = other, at.Part, at.Of
		}
	}
	if m := oneExpert.FindStringSubmatch(s.Name); m != nil && !c.Has(s.Name) {
		e, half := 0, 1 // down_proj is (experts, d, inner); gate_up_proj has the gate matrix, then the up matrix
		fmt.Sscan(m[2], &e)
		s.Name = m[1] + "down_proj"
		if m[3] != "down" {
			s.Name, half = m[1]+"gate_up_proj", 2
		}
		s.Of, s.Part = half*c.Shape(s.Name)[0], half*e
		if m[3] == "up" {
			s.Part++
		}
	}
	return s
}

// transposed returns the elements of a matrix (n, k), where x holds those of its transpose (k, n).
func transposed(x []float64, n, k int) []float64 {
	y := make([]float64, len(x))
	for i := range n {
		for j := range k {
			y[i*k+j] = x[j*n+i]
		}
	}
	return y
}

// checkCached compares the logits of a prefill and of single ids after it.
func checkCached(t *testing.T, c golden.Case, m *model.Model, ids []int32, b, l int, meta hfCase) {
	t.Helper()
	v := m.Config.PaddedVocab()
	shape := c.Shape("out/logits_cached") // (b, steps, v), from the last id of the prefill on
	got := make([]float32, b*shape[1]*v)
	for i := range b {
		state, tape := m.NewState(), autograd.NewTape(cpu.Backend{})
		for lo, hi := 0, meta.Prefill; lo < l; lo, hi = hi, hi+1 {
			tape.Reset()
			rows := model.OneRow(hi-lo, state)
			logits := read(m.LastLogits(tape, m.Forward(tape, ids[i*l+lo:i*l+hi], rows), rows))
			copy(got[(i*shape[1]+hi-meta.Prefill)*v:], logits)
		}
	}
	golden.CloseAbs(t, "logits_cached", got, c.F64("out/logits_cached"), meta.tolerance())
}

// TestQwen35TextOnly checks that the part for text only, under its own names, gives the same model as a release that
// also sees pictures. The release is written again with all its tensors. Those of other parts are only included if
// their file is available.
func TestQwen35TextOnly(t *testing.T) {
	whole := filepath.Join(golden.Dir(t), "13_hf_qwen3_5_a")
	alone := filepath.Join(golden.Dir(t), "15_hf_qwen3_5_a_text")
	m, _ := openHF(t, whole)
	n, _ := openHF(t, alone)
	if !slices.Equal(hybridLogits(m), hybridLogits(n)) {
		t.Error("other logits")
	}
	for dir, want := range map[string][]string{whole: {"model.visual.* (2)", "mtp.* (4)"}, alone: nil} {
		f, err := OpenWeights(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got := LeftOut(dir, f); !slices.Equal(got, want) {
			t.Errorf("%s: left out are %q, want %q", dir, got, want)
		}
		config, err := os.ReadFile(filepath.Join(dir, model.ConfigFile))
		if err != nil {
			t.Fatal(err)
		}
		if names := differing(t, dir, hfWritten(t, n, config, f)); len(names) > 0 {
			t.Errorf("%s: other tensors %q", dir, names)
		}
	}
}

// TestHFDialects checks that the configurations of a model in the dialects of transformers 4 and 5 are equal.
func TestHFDialects(t *testing.T) {
	golden.Run(t, "13_hf_", func(t *testing.T, c golden.Case) {
		var got [2]published
		for i, name := range []string{"config.json", "config_v5.json"} {
			var err error
			if got[i], err = readConfig(filepath.Join(hfFolder(c), name), 0); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(got[0], got[1]) {
			t.Errorf("transformers 4: %+v\ntransformers 5: %+v", got[0], got[1])
		}
	})
}
