package text

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train"
)

// going returns the configuration of a run on other text that starts from the model at path.
func going(t testing.TB, path string) Config {
	t.Helper()
	c := small(t)
	text := strings.Repeat("a dog and a fox jump over some brown logs, quick and lazy; ", 40)
	if err := os.WriteFile(c.Data[0], []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := c.StartFrom(path, path); err != nil {
		t.Fatal(err)
	}
	return c
}

// copied copies the named files of a golden case, or all, into a new folder with a tokenizer for the tests' text.
func copied(t testing.TB, golden string, names ...string) string {
	t.Helper()
	from, dir := filepath.Join("..", "..", "testdata", "golden", golden), t.TempDir()
	if len(names) == 0 {
		files, err := os.ReadDir(from)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			names = append(names, f.Name())
		}
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	tok, err := tokenizer.Characters(strings.NewReader("abcdefghijklmnopqrstuvwxyz ,;"))
	if err != nil {
		t.Fatal(err)
	}
	if err := tok.Save(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// ggufFile returns the path of a GGUF file with a model and its tokenizer.
func ggufFile(t testing.TB, kind checkpoint.DType, tok tokenizer.Tokenizer) string {
	t.Helper()
	cfg := model.DefaultConfig()
	cfg.Norm, cfg.MLP, cfg.EmbedDropout, cfg.AttnDropout = model.NormRMS, model.MLPNone, 0, 0
	cfg.DModel, cfg.NLayer, cfg.VocabSize, cfg.Mixer = 32, 2, 256, "mamba2(d_state=16,headdim=8)"
	m, err := model.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(5)
	path := filepath.Join(t.TempDir(), "model.gguf")
	err = disk.WriteFile(path, func(w io.Writer) error {
		return release.WriteGGUF(w, m, release.GGUFOptions{Type: kind, Tokenizer: tok})
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// trainedTensors returns the weights of a run's last checkpoint.
func trainedTensors(t testing.TB, dir string) map[string]string {
	t.Helper()
	f, err := checkpoint.OpenSafetensors(filepath.Join(dir, model.LastDir, model.WeightsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]string{}
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		out[name] = string(x.Data)
	}
	return out
}

// TestStartFrom checks that a run can start from another run, the folders and files of releases, the folders of all
// families and a GGUF file. The validation loss before the first update is that of the model on the same text, the
// weights change, and frozen parameters keep their bits, even in a run that is resumed after the model was removed.
func TestStartFrom(t *testing.T) {
	first := small(t)
	mustRun(t, first)
	h3 := copied(t, "05_h3_lm_a", "model.pt", "config.json")
	models := map[string]string{
		"run":        first.Out,
		"checkpoint": filepath.Join(first.Out, model.LastDir),
		"H3 file":    filepath.Join(h3, "model.pt"),
		"Mamba":      copied(t, "06_mamba_lm_a", "model.safetensors", "config.json"),
		"GGUF":       ggufFile(t, checkpoint.F16, tokenizer.Bytes()),
	}
	families, err := filepath.Glob(filepath.Join("..", "..", "testdata", "golden", "13_hf_*", model.ConfigFile))
	if err != nil || len(families) == 0 {
		t.Fatalf("found %d folders of families: %v", len(families), err)
	}
	for _, path := range families {
		name := filepath.Base(filepath.Dir(path))
		models[name] = copied(t, name)
	}
	for what, path := range models {
		t.Run(what, func(t *testing.T) {
			c := going(t, path)
			c.Freeze, c.Train.Steps = []string{"backbone.embedding*", "*.0.mixer"}, 2
			m, at, err := release.DescribeFloat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := release.LoadFloat(m, at); err != nil {
				t.Fatal(err)
			}
			origin := map[string]string{}
			for _, x := range m.Tensors() {
				origin[x.Name] = string(x.Data)
			}
			d, err := c.OpenData(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			want, err := Evaluate(context.Background(), m, d.Valid, EvalOptions{SeqLen: c.Train.SeqLen, BatchSize: 2})
			if err != nil {
				t.Fatal(err)
			}
			c.Train.EvalTokens = d.Valid.Len()
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}

			mustRun(t, c)
			got := trainedTensors(t, c.Out)
			still := 0
			for name, x := range origin {
				frozen := strings.HasPrefix(name, "backbone.embedding") ||
					strings.HasPrefix(name, "backbone.layers.0.mixer.")
				if frozen {
					still++
				}
				constant := strings.HasSuffix(name, ".router.bias") // bias for the choice of experts
				if (got[name] == x) != (frozen || constant) {
					t.Errorf("%s: frozen %v, but the same as before %v", name, frozen, got[name] == x)
				}
			}
			if still < 3 || still == len(origin) || len(got) != len(origin) {
				t.Errorf("%d of %d tensors are frozen, and %d saved", still, len(origin), len(got))
			}
			cfg, err := ReadRun(c.Out)
			if err != nil {
				t.Fatal(err)
			}
			if b := cfg.Base; b.Name != path || !filepath.IsAbs(b.Path) || b.Weights != m.WeightsFingerprint() ||
				cfg.InitWeights != b.Weights {
				t.Errorf("the run says of its base: %+v, %s", b, cfg.InitWeights)
			}
			s, err := train.ReadSaved(c.Out, train.LanguageKind, checkpoint.SettleDir)
			if err != nil {
				t.Fatal(err)
			}
			if p := s.History.Points[0]; p.Step != 0 || p.Valid.Loss != want.Loss {
				t.Errorf("the first point is %+v, want a loss of %v", p, want.Loss)
			}
			card, err := os.ReadFile(filepath.Join(c.Out, CardFile))
			if err != nil || !strings.Contains(string(card), "| began with | "+path) ||
				!strings.Contains(string(card), "weights "+m.WeightsFingerprint()) ||
				!strings.Contains(string(card), "| frozen | ") {
				t.Errorf("card: %v\n%s", err, card)
			}
			if what == "run" && !strings.Contains(string(card), "| of that: data | "+first.Data[0]) {
				t.Errorf("the card does not say what %s was trained on:\n%s", path, card)
			}

			part := c
			part.Out = filepath.Join(t.TempDir(), "part")
			ctx, cancel := context.WithCancel(context.Background())
			res, err := Run(ctx, part, train.Events{Step: func(p train.Progress) {
				if p.Step == 1 {
					cancel()
				}
			}})
			cancel()
			if err != nil || !res.Interrupted {
				t.Fatalf("%+v, %v", res, err)
			}
			resumed, err := ReadRun(part.Out)
			if err != nil {
				t.Fatal(err)
			}
			resumed.Init, resumed.Base.Path = "/gone", "/gone"
			if _, err := Resume(context.Background(), resumed, train.Events{}); err != nil {
				t.Fatal(err)
			}
			if weights(t, part.Out) != weights(t, c.Out) {
				t.Error("a resumed run has other weights")
			}
		})
	}
}

// TestStartFromKeepsHowToTalk checks that each checkpoint of a run has the chat template and the sampling defaults of
// the model that the run started from, even after an interruption and if the model was removed.
func TestStartFromKeepsHowToTalk(t *testing.T) {
	base := copied(t, "06_mamba_lm_a", "model.safetensors", "config.json")
	texts := map[string]string{"chat_template.jinja": "{{ messages[0].content }}", "tokenizer_config.json": `{"a":1}`,
		"generation_config.json": `{"temperature":0.5}`}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(base, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	c := going(t, filepath.Join(base, "model.safetensors"))
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Run(ctx, c, train.Events{Step: func(p train.Progress) {
		if p.Step == 2 {
			cancel()
		}
	}})
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ReadRun(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(base); err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(context.Background(), again, train.Events{}); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{model.BestDir, model.LastDir} {
		for name, want := range texts {
			got, err := os.ReadFile(filepath.Join(c.Out, sub, name))
			if err != nil || string(got) != want {
				t.Errorf("%s of %s: found %q, %v, want %q", name, sub, got, err, want)
			}
		}
	}
}

// TestStartFromItsSettings checks how the layers of settings combine with a base.
func TestStartFromItsSettings(t *testing.T) {
	first := small(t)
	first.Train.Clock, first.Memory = train.WallClock, train.MemoryCheck
	mustRun(t, first)
	mamba := copied(t, "06_mamba_lm_a", "model.safetensors", "config.json")
	bare := copied(t, "06_mamba_lm_a", "model.safetensors", "config.json")
	if err := os.Remove(filepath.Join(bare, tokenizer.FileName)); err != nil {
		t.Fatal(err)
	}
	gguf := ggufFile(t, checkpoint.F32, tokenizer.Bytes())
	bareGGUF := ggufFile(t, checkpoint.F32, nil)
	settings := func(lines ...string) (Config, error) {
		text := fmt.Sprintf("data: [%q]\ncache: none\n", first.Data[0]) + strings.Join(lines, "\n")
		return LoadNew(config.Options{File: "settings.yaml", FileData: []byte(text)},
			func(name string) (string, error) { return name, nil })
	}
	c, err := settings("init: "+first.Out, "train: {seq_len: 48}", "model: {embed_dropout: 0}")
	if err != nil {
		t.Fatal(err)
	}
	shape := first.Model
	shape.EmbedDropout, shape.VocabSize = 0, 256
	c.Model.Tokenizer = ""
	if diff := config.Diff(&shape, &c.Model); len(diff) > 0 || c.Train.SeqLen != 48 || c.Tokenizer != "bytes" {
		t.Errorf("%q, length %d, tokenizer %s", diff, c.Train.SeqLen, c.Tokenizer)
	}
	if c.Optim.LR != 0.05/16 || c.Optim.SSMLR != 0 {
		t.Errorf("learning rates %g, %g", c.Optim.LR, c.Optim.SSMLR)
	}
	if c, err = settings("init: "+bare, "tokenizer: "+mamba, "optim: {lr: 0.5}"); err != nil ||
		c.Optim.LR != 0.5 || c.Model.PaddedVocab() != 104 {
		t.Errorf("with settings of its own: %v, %+v", err, c.Model)
	}
	if c, err = settings("init: "+gguf, "tokenizer: "+gguf); err != nil || c.Tokenizer != gguf {
		t.Errorf("the tokenizer in a GGUF file: %v, %s", err, c.Tokenizer)
	}
	if _, err = settings("init: "+bareGGUF, "tokenizer: "+gguf); err != nil {
		t.Errorf("the tokenizer in another GGUF file: %v", err)
	}
	if _, err = settings("init: "+mamba, "model: {layers: 'mamba*3'}", "tokenizer: chars"); err != nil {
		t.Errorf("equal settings in other words: %v", err)
	}
	for want, lines := range map[string][]string{
		"model.d_model: 16 -> 32: the shape is that of " + first.Out: {"init: " + first.Out, "model: {d_model: 32}"},
		"model.d_model: 32 -> 128":                                   {"init: " + mamba, "preset: tiny"},
		"model.vocab_size: 256 -> 300": {
			"init: " + first.Out, "model: {vocab_size: 300}"},
		"tokenizer: found dna together with --init " + first.Out: {"init: " + first.Out, "tokenizer: dna"},
		"tokenizer: found none with " + bare:                     {"init: " + bare},
		"tokenizer: found none with " + bareGGUF:                 {"init: " + bareGGUF},
		"found the gpt2 tokenizer":                               {"init: " + bare, "tokenizer: gpt2"},
		`freeze: "backbone.layers.7" matches no parameter, want names such as backbone.layers.0`: {
			"init: " + first.Out, "freeze: [backbone.layers.7]"},
		"freeze: found [\"*\"], which leaves no parameter": {"init: " + first.Out, `freeze: ["*"]`},
		"init: stat " + first.Out + "/none":                {"init: " + first.Out + "/none"},
	} {
		_, err := settings(lines...)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "empty name") {
			t.Errorf("%q: error %v, want one with %q alone", lines, err, want)
		}
	}
	saved, err := os.ReadFile(filepath.Join(first.Out, train.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	again := strings.Replace(string(saved), `init: ""`, "init: "+first.Out, 1)
	again = strings.Replace(again, "out: "+first.Out, "out: "+filepath.Join(t.TempDir(), "again"), 1)
	if _, err := LoadNew(config.Options{File: "again.yaml", FileData: []byte(again)},
		func(name string) (string, error) { return name, nil }); err != nil {
		t.Errorf("the settings of a run, with itself to begin with: %v", err)
	}
}

// TestStartFromErrors checks the errors for bases that a run cannot start from, and for resuming a run that has one.
func TestStartFromErrors(t *testing.T) {
	first := small(t)
	mustRun(t, first)
	c := going(t, first.Out)
	c.InitWeights = strings.Repeat("0", 64)
	want := "the model has changed"
	if _, err := Run(context.Background(), c, train.Events{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("other weights: %v", err)
	}
	c = small(t)
	c.Init = first.Out
	if _, err := Run(context.Background(), c, train.Events{}); err == nil || !strings.Contains(err.Error(),
		"StartFrom") {
		t.Errorf("settings without the shape: %v", err)
	}
	learned := small(t)
	learned.Model.MaxPositions = 32
	mustRun(t, learned)
	c = going(t, learned.Out)
	c.Train.SeqLen = 33
	want = "train.seq_len: found"
	if _, err := Run(context.Background(), c, train.Events{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("longer than its positions: %v", err)
	}

	c = going(t, copied(t, "13_hf_jamba_dense_a")) // its loss is above guessing
	c.Optim.LR = 5
	want = "that of guessing 4.615, before the first update it was "
	if _, err := Run(context.Background(), c, train.Events{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("it diverges: %v", err)
	}
	c = small(t)
	quantized := ggufFile(t, checkpoint.Q8_0, tokenizer.Bytes())
	want = "found quantized weights (token_embd.weight of Q8_0"
	if err := c.StartFrom(quantized, quantized); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a quantized file: %v", err)
	}
	misshapen := copied(t, "13_hf_granite_h_a")
	other, err := os.ReadFile(filepath.Join(copied(t, "13_hf_lfm2_a"), model.WeightsFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(misshapen, model.WeightsFile), other, 0o666); err != nil {
		t.Fatal(err)
	}
	want = "model.norm.weight: missing, want shape [48]"
	if err := c.StartFrom(misshapen, misshapen); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the weights of another family: %v", err)
	}

	whole := filepath.Join(first.Out, model.BestDir, model.WeightsFile)
	f, err := checkpoint.OpenSafetensors(whole)
	if err != nil {
		t.Fatal(err)
	}
	var rounded []checkpoint.Tensor
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		y := checkpoint.NewTensor(name, x.Shape, make([]int8, x.Elements()))
		rounded = append(rounded, y)
	}
	dir := t.TempDir()
	if err := train.WriteTensors(filepath.Join(dir, model.WeightsFile), rounded); err != nil {
		t.Fatal(err)
	}
	f.Close()
	text, err := os.ReadFile(filepath.Join(first.Out, model.BestDir, model.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, model.ConfigFile), text, 0o666); err != nil {
		t.Fatal(err)
	}
	c = small(t)
	if err := c.StartFrom(dir, dir); err == nil ||
		!strings.Contains(err.Error(), "found quantized weights (backbone.embeddings.word_embeddings.weight of I8, ") {
		t.Errorf("weights in whole numbers: %v", err)
	}
}

// TestReadCard checks which lines are read from the cards of runs and of published models.
func TestReadCard(t *testing.T) {
	for text, want := range map[string][]Said{
		"# runs/x\n\n| | |\n|---|---|\n| data | a.txt, sha256 12 |\n| seed | 1 |\n": {{"data", "a.txt, sha256 12"}},
		"---\nlicense: apache-2.0\ndatasets:\n- one\n- 'two'\ntags:\n- x\n---\nlicense: no\n": {
			{"license", "apache-2.0"}, {"datasets", "one"}, {"datasets", "two"}},
		"": nil,
	} {
		if got := parseCard(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
