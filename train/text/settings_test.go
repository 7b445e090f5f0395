package text

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train"
)

// settingsOf loads lines of settings for a new run on a text.
func settingsOf(t testing.TB, lines string) (Config, error) {
	t.Helper()
	text := filepath.Join(folderOf(t, map[string]string{"text.txt": "some text"}), "text.txt")
	if !strings.Contains(lines, "data:") {
		lines += fmt.Sprintf("\ndata: [%q]\n", text)
	}
	return LoadNew(config.Options{File: "settings.yaml", FileData: []byte(lines)},
		func(name string) (string, error) {
			if name == "lost" {
				return "", errors.New("nobody has it")
			}
			return strings.TrimPrefix(name, "the "), nil
		})
}

// TestStartOfSettings checks what a run takes from the model that it starts from, and what it refuses.
func TestStartOfSettings(t *testing.T) {
	mamba := copied(t, "06_mamba_lm_a", "model.safetensors", "config.json")
	bare := copied(t, "06_mamba_lm_a", "model.safetensors", "config.json")
	if err := os.Remove(filepath.Join(bare, tokenizer.FileName)); err != nil {
		t.Fatal(err)
	}
	dna := copied(t, "06_mamba_lm_a", "model.safetensors", "config.json")
	if err := tokenizer.DNA().Save(dna); err != nil {
		t.Fatal(err)
	}
	gguf := ggufFile(t, checkpoint.F32, tokenizer.Bytes())
	write(t, filepath.Join(mamba, "README.md"), []byte("---\nlicense: mine\n---\n"))
	for _, k := range []struct {
		path, tokenizer, is, at, texts string
		rank                           int
		rate                           float64
	}{
		{mamba, "", "chars", mamba, mamba, 0, 0.05 / 32}, {mamba, "", "chars", mamba, mamba, 1, 0.5 / 32},
		{filepath.Join(mamba, "model.safetensors"), "", "chars", filepath.Join(mamba, "model.safetensors"), mamba, 0,
			0.05 / 32},
		{gguf, "", gguf, gguf, gguf, 1, 0.5 / 32},
	} {
		c := small(t)
		c.LoRA.Rank, c.Optim.SSMLR, c.Tokenizer = k.rank, 7, "dna"
		c.Model.EmbedDropout = 0.3
		err := c.StartFrom("the name", k.path)
		if err != nil || c.Init != "the name" || c.Base.Name != "the name" || c.Base.Path != k.at ||
			c.Tokenizer != k.is || c.Optim.LR != k.rate || c.Optim.SSMLR != 0 || c.Model.DModel != 32 ||
			c.Base.texts() != k.texts || (len(c.Base.Card) == 1) != (k.path != gguf) ||
			c.Base.dir() != filepath.Dir(filepath.Join(k.texts, "x")) && k.path != gguf ||
			c.Model.EmbedDropout != c.Base.shape.EmbedDropout || c.begun() != nil {
			t.Errorf("%+v: %v: %+v", k, err, c)
		}
	}
	c := small(t)
	if err := c.StartFrom("x", filepath.Join(mamba, "none")); err == nil || !strings.HasPrefix(err.Error(), "init: ") {
		t.Errorf("no model: %v", err)
	}
	broken := copied(t, "06_mamba_lm_a", "model.safetensors", "config.json")
	write(t, filepath.Join(broken, tokenizer.FileName), []byte("{"))
	if err := c.StartFrom("x", broken); err == nil || !strings.HasPrefix(err.Error(), "init: ") {
		t.Errorf("a broken tokenizer: %v", err)
	}
	t.Chdir(filepath.Dir(mamba))
	if err := c.StartFrom("x", filepath.Base(mamba)); err != nil || c.Base.Path != mamba {
		t.Errorf("the relative path became %s, %v", c.Base.Path, err)
	}
	for _, k := range []struct{ init, lines, want string }{
		{mamba, "", "chars"}, {"the " + mamba, "", "chars"}, {mamba, "tokenizer: chars", "chars"},
		{mamba, "tokenizer: " + mamba + "/tokenizer.json", "chars"}, {gguf, "", gguf},
		{gguf, "tokenizer: " + gguf, gguf}, {dna, "", "dna"}, {bare, "tokenizer: " + mamba + "/tokenizer.json", mamba},
		{mamba, "model: {embed_dropout: 0.2, resid_dropout: 0.3, attn_dropout: 0.4}", "chars"},
		{mamba, "model: {layers: 'mamba*3'}", "chars"},
		{mamba, "model: {d_model: 48}",
			"model.d_model: 32 -> 48: the shape is that of " + mamba + ", which --init names"},
		{mamba, "tokenizer: dna", "tokenizer: found dna together with --init " + mamba},
		{mamba, "lora: {rank: 1}", "chars"},
		{gguf, "tokenizer: chars", "tokenizer: found chars together"},
		{bare, "", "tokenizer: found none with " + bare + ", whose model has 97 tokens"},
		{bare, "tokenizer: chars", "tokenizer: found none with"}, {bare, "tokenizer: gone", "tokenizer: "},
		{bare, "tokenizer: gpt2", "tokenizer: " + bare + ": found the gpt2 tokenizer"},
		{"lost", "", "init: nobody has it"}, {"/gone", "", "init: "},
		{mamba, "model: {d_model: 48}\ntokenizer: dna", "tokenizer: found dna"},
		{mamba, "preset: none", "preset: found"},
		{mamba, "freeze: [nothing]", `freeze: "nothing" matches`}, {mamba, "freeze: ['*']",
			"which leaves no parameter"},
		{mamba + "/model.safetensors", "lora: {rank: 2}", "init: found the file"},
	} {
		c, err := settingsOf(t, "init: "+k.init+"\n"+k.lines)
		if strings.ContainsAny(k.want, ": ") {
			if err == nil || !strings.Contains(err.Error(), k.want) {
				t.Errorf("%s, %q: %v, want %q", k.init, k.lines, err, k.want)
			}
			continue
		}
		if err != nil || !strings.HasPrefix(c.Tokenizer, k.want) || c.Model.VocabSize != c.Base.shape.VocabSize {
			t.Errorf("%s, %q: tokenizer %q, %d tokens, %v, want %q", k.init, k.lines, c.Tokenizer, c.Model.VocabSize,
				err,
				k.want)
		}
		if want := map[bool]float64{true: 0.5 / 32, false: 0.05 / 32}[c.LoRA.Rank == 1]; c.Optim.LR != want {
			t.Errorf("%q: the rate is %g, want %g", k.lines, c.Optim.LR, want)
		}
		if d := c.Model; strings.Contains(k.lines, "dropout") &&
			[3]float64{d.EmbedDropout, d.AttnDropout, d.ResidDropout} != [3]float64{0.2, 0.4, 0.3} {
			t.Errorf("dropouts %v", d)
		}
	}
	if _, err := settingsOf(t, "init: "+mamba+"\nmodel: {d_model: -1}"); err == nil || strings.Contains(err.Error(),
		"\n") {
		t.Errorf("%v, want one problem of the width alone", err)
	}
	b, err := openBase("m", mamba)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.New(b.shape)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []LoRA{{}, {Rank: 1, Base: "bf16"}} {
		for want, ok := range map[string]bool{"": true, "x": false} {
			b.Weights = ""
			err := b.fill(m, want, &l)
			if (err == nil) != ok || b.Weights == "" || !ok && (!strings.HasPrefix(err.Error(),
				"init_weights: found weights "+
					b.Weights) || !strings.Contains(err.Error(), "want x: the model has changed")) {
				t.Errorf("%+v, wanted %q: weights %q, %v", l, want, b.Weights, err)
			}
			if err := b.fill(m, b.Weights, &l); err != nil {
				t.Error(err)
			}
		}
		if m, err = model.New(b.shape); err != nil {
			t.Fatal(err)
		}
	}
	b.Path = filepath.Join(mamba, "gone")
	if err := b.fill(m, "", &LoRA{}); err == nil || !strings.HasPrefix(err.Error(), "init: ") {
		t.Errorf("a model that is gone: %v", err)
	}
}

// TestLayersOfSettings checks the result of the layers of settings without a base model.
func TestLayersOfSettings(t *testing.T) {
	for _, k := range []struct {
		lines, want string
		vocab       int
	}{
		{"", "", 0}, {"tokenizer: gpt2", "", 0}, {"tokenizer: bytes", "", 0}, {"tokenizer: chars", "", 0},
		{"tokenizer: gpt2\nmodel: {vocab_size: 50257}", "", 50257}, {"model: {vocab_size: 300}", "", 300},
		{"tokenizer: gpt2\nmodel: {vocab_size: 50256}",
			"model.vocab_size: found 50256, but the gpt2 tokenizer has 50257 tokens", 50256},
		{"tokenizer: gone", "gone", 0}, {"preset: huge\noptim: {lr: -1}", "huge", 0}, {"optim: {lr: -1}", "optim.lr",
			0},
		{"preset: huge\nmodel: {d_model: -1}", "huge", 0}, {"preset: huge\nmodel: {d_model: 77}", "huge", 0},
		{"model: {d_model: -1}", "model.d_model", 0},
		{"valid: [/gone/text]", "validation text: ", 0}, {"data: [/gone/text]", "/gone/text", 0},
		{"template: /gone/t", "template: ", 0}, {"freeze: [x]", `freeze: "x" matches`, 0},
		{"lora: {rank: 2}", "lora.rank: found 2 without init", 0}, {"seed: x", "seed", 0},
		{"lora: {rank: 1, target: [x]}", "lora.target", 0},
		{"preset: hyenadna-tiny-1k", "", 12},
		{"preset: h3-125m", "", 50257}, {"preset: h3-125m\ntokenizer: bytes", "", 0}, {"lora: {rank: 2, target: [x]}",
			"lora.target", 0},
	} {
		c, err := settingsOf(t, k.lines)
		if k.want == "" && err != nil || k.want != "" && (err == nil || !strings.Contains(err.Error(), k.want)) ||
			c.Model.VocabSize != k.vocab {
			t.Errorf("%q: %d tokens, %v, want %d and %q", k.lines, c.Model.VocabSize, err, k.vocab, k.want)
		}
		if err != nil && strings.Contains(k.lines, "huge") && strings.Contains(err.Error(), "model.") {
			t.Errorf("%q: %v: what is wrong with its shape depends on the preset", k.lines, err)
		}
		if strings.Contains(k.lines, "77") && c.Model.DModel != 77 {
			t.Errorf("%q: a width of %d", k.lines, c.Model.DModel)
		}
		if k.lines == "preset: huge\noptim: {lr: -1}" && !strings.Contains(fmt.Sprint(err), "optim.lr") {
			t.Errorf("%v, want all problems", err)
		}
	}
	c := small(t)
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	for _, k := range [][3]string{{"", "", "empty name"}, {"x", "", ""}, {"x", "gone", "gone"}, {"x", "bytes", ""}, {"",
		"chars", ""}} {
		c.Init, c.Tokenizer = k[0], k[1]
		if err := c.CheckInputs(); (err == nil) != (k[2] == "") || err != nil && !strings.Contains(err.Error(), k[2]) {
			t.Errorf("the tokenizer %q with init %q: %v", k[1], k[0], err)
		}
	}
	c = small(t)
	// chars: the letters, a space, a semicolon
	for kind, want := range map[string]int{"bytes": 256, "dna": 12, "chars": 28} {
		c.Tokenizer = kind
		if n, err := c.VocabSize(); err != nil || n != want {
			t.Errorf("%s has %d tokens, %v, want %d", kind, n, err, want)
		}
	}
	lost := c
	lost.Tokenizer, lost.Data = "bytes", []string{"/gone"}
	if n, err := lost.VocabSize(); err != nil || n != 256 {
		t.Errorf("%d bytes, %v: the text does not matter", n, err)
	}
	for _, change := range []func(c *Config){func(c *Config) { c.Template = "/gone" },
		func(c *Config) { c.Valid = []string{"/gone"} }, func(c *Config) { c.Tokenizer = "gone" }} {
		c := c
		c.Tokenizer = "chars"
		change(&c)
		if n, err := c.VocabSize(); err == nil {
			t.Errorf("%d tokens of %+v", n, c)
		}
	}
	c = small(t)
	c.Train.Steps, c.Valid = 0, []string{"/gone/text"}
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "train.steps") ||
		!strings.Contains(err.Error(), "validation text: ") {
		t.Errorf("%v, want both problems", err)
	}
	c = small(t)
	c.Model.MaxPositions = 32
	if err := c.Fits(256); err != nil {
		t.Errorf("as long as the positions: %v", err)
	}
	c.Train.SeqLen++
	if err := c.Fits(256); err == nil ||
		err.Error() != "train.seq_len: found 33, but the model takes at most 32 tokens" {
		t.Errorf("longer than the positions: %v", err)
	}
	c.Train.SeqLen, c.Train.CarryState = 3, true
	if err := c.Fits(256); err == nil || !strings.HasPrefix(err.Error(), "train.seq_len: the text has no end") {
		t.Errorf("endless: %v", err)
	}
	c.Model.DModel = -1
	if err := c.Fits(256); err == nil || !strings.Contains(err.Error(), "d_model") {
		t.Errorf("no shape: %v", err)
	}
	c.Freeze = []string{"x"} // an invalid shape is reported elsewhere
	if err := c.checkFreeze(); err != nil {
		t.Error(err)
	}
	if n := (&Config{Tokenizer: "dna"}).likelyVocab(); n != tokenizer.DNA().VocabSize() {
		t.Errorf("DNA has about %d tokens", n)
	}
	for _, name := range []string{"chars", "gone"} {
		if n := (&Config{Tokenizer: name}).likelyVocab(); n != 256 {
			t.Errorf("%s has about %d tokens", name, n)
		}
	}
}

// TestFreezing checks which parameters are counted, trained and frozen.
func TestFreezing(t *testing.T) {
	c := small(t)
	shape := c.shape(256)
	if n := c.shape(7).VocabSize; n != 7 {
		t.Errorf("the shape has %d tokens, want those of the tokenizer", n)
	}
	c.Model.VocabSize = 256
	if n := c.shape(7).VocabSize; n != 256 {
		t.Errorf("the shape has %d tokens, want its own", n)
	}
	of := func() (train.ParamCount, *model.Model, error) {
		m, err := model.New(shape)
		if err != nil {
			t.Fatal(err)
		}
		n, err := c.freeze(m)
		return n, m, err
	}
	all, m, err := of()
	if err != nil || all != (train.ParamCount{All: m.NumParams(), Trained: m.NumParams(), Values: 4 * m.NumParams()}) {
		t.Errorf("%+v, %v", all, err)
	}
	c.Freeze = []string{"backbone.embeddings"}
	some, m, err := of()
	if want := all.All - shape.PaddedVocab()*shape.DModel; err != nil || some.Trained != want || some.All != all.All ||
		some.Values != all.Values || m.NumParams() != want {
		t.Errorf("%+v, %v, want %d trained", some, err, want)
	}
	counted, err := c.countParams(shape)
	if err != nil || counted != some {
		t.Errorf("counted %+v, %v", counted, err)
	}
	if _, err := c.countParams(model.Config{}); err == nil {
		t.Error("a shape of nothing is counted")
	}
	c.Freeze = []string{"*"}
	if _, _, err := of(); err == nil || err.Error() != `freeze: found ["*"], which leaves no parameter to be trained` {
		t.Errorf("all frozen: %v", err)
	}
	c.Freeze = []string{"x"}
	if _, _, err := of(); err == nil || !strings.HasPrefix(err.Error(), "freeze: ") {
		t.Errorf("nothing frozen: %v", err)
	}
	c.Freeze = nil
	for base, each := range map[string]float64{"float32": 4, "bf16": 2} {
		c.LoRA = LoRA{Rank: 2, Base: base, Target: []string{"fc1"}, Dropout: 0.5}
		n, m, err := of()
		own := m.Adapter().NumParams()
		if err != nil || n.Trained != own || n.All != all.All+own || n.Values <= int(each*0.5*float64(all.All)) ||
			base == "float32" && n.Values != 4*n.All || base == "bf16" && n.Values >= 4*n.All {
			t.Errorf("%s: %+v of %+v and %d, %v", base, n, all, own, err)
		}
		if want := 2 * 2 * (16 + shape.Inner()); own != want && shape.Inner() > 0 {
			t.Logf("an adapter of %d parameters, of fc1 in two layers", own)
		}
	}
	c.LoRA.Target = []string{"x"}
	if _, _, err := of(); err == nil || !strings.HasPrefix(err.Error(), "lora.target: ") {
		t.Errorf("an adapter of nothing: %v", err)
	}
	if err := (&LoRA{}).begin(m, 1); err != nil || m.Adapter() != nil {
		t.Errorf("without a rank a model gets the adapter %v, %v", m.Adapter(), err)
	}
}

// TestAdapterSettings checks alpha, precision, and the bounds of an adapter's settings.
func TestAdapterSettings(t *testing.T) {
	for _, k := range []struct {
		l     LoRA
		init  string
		alpha float64
		p     string
		want  string
	}{
		{LoRA{Base: "float32"}, "", 0, "float32", ""}, {LoRA{Rank: 3, Base: "bf16"}, "m", 6, "bf16", ""},
		{LoRA{Rank: 3, Alpha: 1, Base: "int8", Dropout: 0.9}, "m", 1, "int8", ""},
		{LoRA{Rank: 3, Alpha: 1e6, Base: "float32"}, "m", 1e6, "float32", ""}, {LoRA{Base: "bf16"}, "", 0, "float32",
			"lora.rank: found 0 together"},
		{LoRA{Rank: -1, Base: "float32"}, "m", -2, "float32", "lora.rank: found -1, want 0 or more"},
		{LoRA{Alpha: 1, Base: "float32"}, "m", 1, "float32", "lora.rank: found 0 together"},
		{LoRA{Dropout: 0.1, Base: "float32"}, "m", 0, "float32", "lora.rank: found 0 together"},
		{LoRA{Target: []string{"x"}, Base: "float32"}, "m", 0, "float32", "lora.rank: found 0 together"},
		{LoRA{Rank: 1, Base: "float32"}, "", 2, "float32", "lora.rank: found 1 without init"},
		{LoRA{Rank: 1, Base: "float32", Alpha: -1}, "m", -1, "float32", "lora.alpha: found -1"},
		{LoRA{Rank: 1, Base: "float32", Alpha: 1.1e6}, "m", 1.1e6, "float32", "lora.alpha: found 1.1e+06"},
		{LoRA{Rank: 1, Base: "float32", Dropout: -0.1}, "m", 2, "float32", "lora.dropout: found -0.1"},
		{LoRA{Rank: 1, Base: "float32", Dropout: 1}, "m", 2, "float32", "lora.dropout: found 1, want"},
		{LoRA{Rank: 1, Base: "x"}, "m", 2, "float32", `lora.base: found "x"`},
	} {
		var p config.Problems
		k.l.validate(&Config{Init: k.init}, &p)
		if k.l.alpha() != k.alpha || k.l.precision().String() != k.p || (p == nil) != (k.want == "") ||
			!slices.ContainsFunc(append(p, ""), func(s string) bool { return strings.HasPrefix(s, k.want) }) {
			t.Errorf("%+v: alpha %g, %v, problems %q", k.l, k.l.alpha(), k.l.precision(), p)
		}
	}
	var p config.Problems
	(&LoRA{Rank: 1, Base: "float32"}).validate(&Config{Init: "m", Freeze: []string{"x"}}, &p)
	if len(p) != 1 || !strings.HasPrefix(p[0], `freeze: found ["x"] together with lora.rank`) {
		t.Errorf("with frozen parts: %q", p)
	}
	p = nil
	(&LoRA{Dropout: 0.1, Base: "float32"}).validate(&Config{Freeze: []string{"x"}}, &p)
	if len(p) != 1 || !strings.HasPrefix(p[0], "lora.rank: found 0 together") {
		t.Errorf("without a rank and with frozen parts: %q", p)
	}
	dir := folderOf(t, map[string]string{"f": "", "g.gguf": "GGUF"})
	for path, ok := range map[string]bool{"": true, "f": false, "g.gguf": true, "gone": true} {
		for rank := range 2 {
			err := (&LoRA{Rank: rank}).fitsBase(&Base{Path: filepath.Join(dir, path)})
			if (err == nil) != (ok || rank == 0) {
				t.Errorf("rank %d, %q: %v", rank, path, err)
			}
		}
	}
	l := LoRA{}
	if l.settle(); l.Base != "float32" {
		t.Errorf("settings of an earlier version have the base %q", l.Base)
	}
	l = LoRA{Base: "int8", Rank: 2, Target: []string{"x"}}
	if l.settle(); l.Base != "int8" {
		t.Errorf("the base becomes %q", l.Base)
	}
	if s := l.shape(); s.Rank != 2 || s.Alpha != 4 || !slices.Equal(s.Targets, l.Target) {
		t.Errorf("the adapter has the shape %+v", s)
	}
}

// TestWorkOfSettings checks the errors that prevent a run from starting.
func TestWorkOfSettings(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"model.vocab_size: found 255, but the bytes tokenizer has 256 tokens": func(c *Config) {
			c.Model.VocabSize = 255
		},
		"train.seq_len: found 32, but the model takes at most 31 tokens": func(c *Config) {
			c.Model.MaxPositions = 31
		},
		"training text: data: found 2430 tokens":               func(c *Config) { c.Train.SeqLen = 2430 },
		"validation text: found 1 tokens, want at least 2":     func(c *Config) { c.ValidFraction = 1. / 2700 },
		"train.gradients: found exact with layer 1, attention": func(c *Config) { c.Train.Chunk = 16 },
		"freeze: found": func(c *Config) { c.Freeze = []string{"*"} },
		"init: found \"x\", whose shape the settings do not have; want settings of LoadNew": func(c *Config) {
			c.Init = "x"
		},
	} {
		c := small(t)
		change(&c)
		d, err := c.OpenData(t.Context(), nil)
		if err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		if _, err := New(c, d); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		d.Close()
	}
	c := small(t)
	c.Model.VocabSize, c.Train.Epochs = 0, 1.5
	c.Documents, c.Train.Shards, c.Train.Accumulation, c.LoRA.Base = "", 1, 2, "" // as in earlier versions
	r := newRun(t, c)
	if c := r.work.Config; c.Documents != documentsApart || c.Train.Shards != 2 || c.LoRA.Base != "float32" {
		t.Errorf("settings of an earlier version became %+v", c)
	}
	c.Train.Shards, c.Train.Accumulation = 2, 0
	w := r.work
	if w.Config.Model.VocabSize != 256 || w.Config.Train.Steps != int(math.Ceil(1.5*2400/128)) ||
		w.Guess() != math.Log(256) || len(w.inputs) != 128 || len(w.targets) != 128 {
		t.Errorf("%+v, guess %v", w.Config.Train, w.Guess())
	}
	p := w.plan()
	if p.StepsPerEpoch != 2400./128 || p.UnitsPerStep != 128 || p.MeasureFirst || p.Sample == nil || p.Shards != 2 ||
		p.Steps != w.Config.Train.Steps || !p.KeepBest || !p.TimeAlone {
		t.Errorf("the plan is %+v", p)
	}
	w.Config.Init = "x"
	if !w.plan().MeasureFirst {
		t.Error("the model that it starts with is not measured")
	}
	if err := c.CountSteps(t.Context()); err != nil || c.Train.Steps != int(math.Ceil(1.5*2430/128)) {
		t.Errorf("%d updates, %v", c.Train.Steps, err)
	}
	c.Train.Epochs, c.Train.Steps, c.Data = 0, 5, []string{"/gone/text"}
	if err := c.CountSteps(t.Context()); err != nil || c.Train.Steps != 5 {
		t.Errorf("%d updates, %v: without epochs nothing is counted", c.Train.Steps, err)
	}
	if _, err := c.FindLR(t.Context(), 20, nil); err == nil {
		t.Error("rates of a text that is not there")
	}
	c.Train.Epochs = 1
	if err := c.CountSteps(t.Context()); err == nil {
		t.Error("updates of a text that is not there")
	}
}
