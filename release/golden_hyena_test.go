package release

import (
	"encoding/json"
	"fmt"
	"os"
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

// TestGoldenHyenaDNA checks the hidden states, classes and gradients of the official model, read from a checkpoint in
// the published form with its config.json, also in chunks.
func TestGoldenHyenaDNA(t *testing.T) {
	const tol = 1e-4 // the golden file's own float32 tolerance
	golden.Run(t, "12_hyenadna", func(t *testing.T, c golden.Case) {
		m := goldenModel(t, c, c.Weights()[0])
		head := model.NewClassifier(m, c.Shape("out/head")[1])
		f, err := checkpoint.Open(c.File(c.Weights()[0]))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := head.Load(weights(t, f)); err != nil {
			t.Fatal(err)
		}
		head.Params("", func(name string, p *nn.Param) {
			golden.Close(t, name, read(p.Tensor), c.F64("param/"+name), 0)
			if before, ok := strings.CutSuffix(name, "implicit_filter.1.freq"); ok { // the release has it three times
				for _, again := range []string{"3", "5"} {
					golden.Close(t, name, read(p.Tensor), c.F64("param/"+before+"implicit_filter."+again+".freq"), 0)
				}
			}
		})
		s, ids := c.Shape("in/ids"), ids32(c.I64("in/ids"))
		tape := autograd.NewTape(cpu.Backend{})
		hidden := c.F64("out/hidden")
		golden.Close(t, "hidden", read(m.Forward(tape, ids, model.EqualRows(s[0], s[1]))), hidden, tol)
		tape.Record(true)
		y := head.Forward(tape, ids, model.EqualRows(s[0], s[1]))
		golden.Close(t, "head", read(y), c.F64("out/head"), tol)
		tape.BackwardFrom(y, tensor.FromSlice(c.F32("in/dy"), y.Shape()...))
		head.Params("", func(name string, p *nn.Param) {
			if p.NeedsGrad() {
				golden.Close(t, "gradient of "+name, gradient(tape, p.Tensor), c.F64("grad/"+name), tol)
			}
		})
		for _, chunk := range []int{1, 5} {
			states, plain, d := newStates(m, s[0]), autograd.NewTape(cpu.Backend{}), m.Config.DModel
			for lo := 0; lo < s[1]; lo += chunk {
				hi := min(s[1], lo+chunk)
				var want []float64
				for i := range s[0] {
					want = append(want, hidden[(i*s[1]+lo)*d:(i*s[1]+hi)*d]...)
				}
				plain.Reset()
				y := m.Forward(plain, columns(ids, s[0], lo, hi), rowsOf(hi-lo, states))
				golden.Close(t, "hidden in chunks", read(y), want, tol)
			}
		}
	})
}

// TestHyenaConfig checks that the layer of a HyenaDNA configuration sets the mixer's options, and that an unsupported
// setting is an error.
func TestHyenaConfig(t *testing.T) {
	parse := func(layer string) (model.Config, error) {
		return ParseConfig([]byte(`{"d_model": 128, "n_layer": 2, "vocab_size": 12, "layer": ` + layer + `}`))
	}
	c, err := parse(`{"_name_": "hyena", "emb_dim": 5, "filter_order": 64, "l_max": 1026, "modulate": true, "w": 10,
		"lr": 6e-4, "wd": 0.0, "lr_pos_emb": 0.0}`)
	preset, presetErr := model.Preset("hyenadna-tiny-1k")
	if err != nil || presetErr != nil || c.Validate() != nil {
		t.Fatal(err, presetErr, c.Validate())
	}
	n, err := c.CountParams()
	if want, _ := preset.CountParams(); err != nil || n != want {
		t.Errorf("%d parameters, %v, want the %d of the preset", n, err, want)
	}
	if shift := fmt.Sprintf("shift=%g,", hyenaDNAShift); !strings.Contains(preset.Mixer, shift) {
		t.Errorf("the preset's mixer is %s, want one with %s", preset.Mixer, shift)
	}
	want := "hyena(emb_dim=5,filter_order=64,l_max=1026,modulate=true,shift=0.05,train_pos_emb=false,w=10)"
	if c.Mixer != want {
		t.Errorf("mixer %s, want %s", c.Mixer, want)
	}
	if c, err = parse(`{"l_max": 8}`); err != nil ||
		c.Mixer != "hyena(emb_dim=3,l_max=8,shift=0.05,train_pos_emb=true,w=1)" {
		t.Errorf("with the official defaults: %s, %v", c.Mixer, err)
	}
	for layer, want := range map[string]string{
		`{"_name_": "attention"}`: `layer._name_: found "attention", want "hyena"`,
		`{"num_heads": 2}`:        "layer.num_heads: found 2, want 1",
		`{"dropout": 0.1}`:        "layer.dropout: found 0.1, want 0",
		`{"normalized": true}`:    "layer.normalized: found true, want false",
		`3`:                       "cannot unmarshal number",
	} {
		if _, err := parse(layer); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", layer, err, want)
		}
	}
	if c, err = parse(`{"l_max": 1.5}`); err != nil || c.Validate() == nil ||
		!strings.Contains(c.Validate().Error(), "l_max") {
		t.Errorf("l_max 1.5: %v, %v", err, c.Validate())
	}
}

// TestHyenaLoadErrors checks the errors for frequencies that are not shared, for a head of other classes, and for a
// checkpoint without its configuration.
func TestHyenaLoadErrors(t *testing.T) {
	golden.Run(t, "12_hyenadna", func(t *testing.T, c golden.Case) {
		m := goldenModel(t, c, c.Weights()[0])
		f, err := checkpoint.Open(c.File(c.Weights()[0]))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		const want = "head.output_transform.weight: found shape [3 16], want [7 16]"
		if err := model.NewClassifier(m, 7).Load(weights(t, f)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("another number of classes: %v", err)
		}
		if _, err := InferConfig(f, 0); err == nil || !strings.Contains(err.Error(), "Hyena model") {
			t.Errorf("no configuration: %v", err)
		}
		other := "backbone.layers.1.mixer.filter_fn.implicit_filter.5.freq"
		tensors := tensorsOf(m)
		tensors[other] = checkpoint.NewTensor(other, []int{1, 16}, make([]float32, 16))
		if err := Load(m, file(t, tensors)); err == nil || !strings.Contains(err.Error(), other+": differs from") {
			t.Errorf("other frequencies: %v", err)
		}
	})
}

// TestHyenaRoundTrip checks that a saved model has the official names and shapes, each once, and is unchanged when it
// is loaded.
func TestHyenaRoundTrip(t *testing.T) {
	golden.Run(t, "12_hyenadna", func(t *testing.T, c golden.Case) {
		m, dir := goldenModel(t, c, c.Weights()[0]), t.TempDir()
		if err := m.Save(dir); err != nil {
			t.Fatal(err)
		}
		back, _, err := LoadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		same := func(a, b checkpoint.Tensor) bool { return a.Name == b.Name && string(a.Data) == string(b.Data) }
		if !slices.EqualFunc(back.Tensors(), m.Tensors(), same) {
			t.Error("it is another model")
		}
		var official map[string]any
		if data, err := os.ReadFile(c.File("config.json")); err != nil || json.Unmarshal(data, &official) != nil {
			t.Fatal(err)
		}
		if back.Config.Mixer != m.Config.Mixer || float64(back.Config.DModel) != official["d_model"] {
			t.Errorf("configuration %+v", back.Config)
		}
	})
}
