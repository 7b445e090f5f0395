package release

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// TestGoldenMambaLM checks the logits, loss, every gradient, any chunks, the states after the text and the greedy text
// of the official Mamba and Mamba-2 language models, from each of their files.
func TestGoldenMambaLM(t *testing.T) {
	for _, prefix := range []string{"06_mamba_lm", "12_mamba2_lm"} {
		golden.Run(t, prefix, func(t *testing.T, c golden.Case) {
			for _, file := range c.Weights() {
				checkMambaLM(t, c, goldenModel(t, c, file), file)
			}
			// The folder is in the published form.
			m, _, err := LoadDir(filepath.Dir(c.File(c.Weights()[0])))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := m.Tensors(), goldenModel(t, c, c.Weights()[0]).Tensors(); !reflect.DeepEqual(got, want) {
				t.Error("its folder loads as another model")
			}
		})
	}
}

// checkMambaLM compares a model with the official one.
func checkMambaLM(t *testing.T, c golden.Case, m *model.Model, file string) {
	t.Helper()
	s := c.Shape("in/ids")
	b, l := s[0], s[1]
	ids := ids32(c.I64("in/ids"))
	tape := autograd.NewTape(cpu.Backend{})
	tape.Record(true)
	hidden := m.Forward(tape, ids, model.EqualRows(b, l))
	golden.CloseAbs(t, "logits", read(m.Logits(tape, hidden)), c.F64("out/logits"), logitTol)
	loss := m.Loss(tape, hidden, ids32(c.I64("in/targets")))
	golden.CloseAbs(t, "loss", read(loss), c.F64("out/loss"), 1e-5)
	tape.Backward(loss)
	m.Params("", func(name string, p *nn.Param) {
		golden.Close(t, "gradient of "+name, gradient(tape, p.Tensor), c.F64("grad/"+name), gradTol)
	})
	checkChunks(t, c, m, ids, b, l)
	prompt, n := ids32(c.I64("in/prompt")), len(c.I64("out/greedy_ids"))
	for _, chunk := range []int{1, 3, 8, 100} {
		what := fmt.Sprintf("%s: greedy ids, prompt in chunks of %d", file, chunk)
		checkIDs(t, what, greedy(m, prompt, n, chunk, m.Config.PaddedVocab()), c.I64("out/greedy_ids"))
		checkIDs(t, what+", masked", greedy(m, prompt, n, chunk, m.Config.VocabSize), c.I64("out/greedy_ids_masked"))
	}
}

// TestMambaTransformers checks that the configuration and the names of the transformers library give the same model,
// and that the shapes of the tensors do so, too.
func TestMambaTransformers(t *testing.T) {
	golden.Run(t, "06_mamba_lm", func(t *testing.T, c golden.Case) {
		want := goldenModel(t, c, c.Weights()[0])
		cfg := want.Config
		dir := t.TempDir()
		tensors := tensorsOf(want)
		const official, theirs = "backbone.embedding.weight", "backbone.embeddings.weight"
		table := tensors[official]
		delete(tensors, official)
		tensors[theirs] = checkpoint.NewTensor(theirs, table.Shape, read(want.Embedding.Weight.Tensor))
		f := file(t, tensors)
		text, err := json.Marshal(map[string]any{
			"model_type": "mamba", "hidden_size": cfg.DModel, "num_hidden_layers": cfg.NLayer,
			"vocab_size": cfg.PaddedVocab(),
			"state_size": 16, "conv_kernel": 4, "expand": 2, "intermediate_size": 2 * cfg.DModel,
			"time_step_rank": (cfg.DModel + 15) / 16,
			"use_bias":       false, "use_conv_bias": true, "layer_norm_epsilon": 1e-5, "tie_word_embeddings": true,
			"architectures": []string{"MambaForCausalLM"},
		})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, model.ConfigFile)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		for what, o := range map[string]ShapeOptions{"transformers": {Config: path}, "read off the tensors": {}} {
			got, _, err := FromCheckpoint(f, o)
			if err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
			for i, x := range got.Tensors() {
				if w := want.Tensors()[i]; x.Name != w.Name || string(x.Data) != string(w.Data) {
					t.Errorf("%s: %s differs", what, x.Name)
				}
			}
		}
		inferred, err := InferConfig(f, 0)
		if err != nil {
			t.Fatal(err)
		}
		inferred.VocabSize = cfg.VocabSize // only the padded size is visible
		if !reflect.DeepEqual(inferred, cfg) {
			t.Errorf("got  %+v\nwant %+v", inferred, cfg)
		}
	})
}
