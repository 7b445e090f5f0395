package text

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train"
)

// adapting returns the configuration of a run that trains an adapter of the model at path.
func adapting(t testing.TB, path, base string) Config {
	t.Helper()
	c := going(t, path)
	c.LoRA = LoRA{Rank: 4, Base: base}
	return c
}

// contents returns the files of a folder.
func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

// TestLoRA checks adapters of a run, of a published model and of a GGUF file, over weights in each precision: the first
// loss is that of the model, the loss falls, checkpoints hold only the adapter, an interrupted run makes the same bits,
// and the model's own files are unchanged. The measured model is the base with the saved adapter.
func TestLoRA(t *testing.T) {
	first := small(t)
	mustRun(t, first)
	mamba := copied(t, "06_mamba_lm_a", "model.safetensors", "config.json")
	granite := copied(t, "13_hf_granite_h_a")
	for _, c := range []struct{ what, path, base string }{
		{"run", first.Out, "float32"},
		{"run", first.Out, "bf16"},
		{"run", first.Out, "int8"},
		{"Mamba", mamba, "float32"},
		{"Granite", granite, "int8"},
		{"GGUF", ggufFile(t, checkpoint.F32, tokenizer.Bytes()), "float32"},
	} {
		t.Run(c.what+" "+c.base, func(t *testing.T) {
			run := adapting(t, c.path, c.base)
			run.Train.EvalTokens = 1 << 20
			run.Optim.LR = 0.02
			at := run.Base.dir()
			before := contents(t, at)
			res := mustRun(t, run)
			s, err := train.ReadSaved(run.Out, train.LanguageKind, checkpoint.SettleDir)
			if err != nil {
				t.Fatal(err)
			}
			m, _, err := release.LoadDir(c.path)
			if err != nil {
				t.Fatal(err)
			}
			d, err := run.OpenData(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			loss := func() float64 {
				r, err := Evaluate(t.Context(), m, d.Valid, EvalOptions{SeqLen: run.Train.SeqLen, BatchSize: 2})
				if err != nil {
					t.Fatal(err)
				}
				return r.Loss
			}
			tolerance := map[string]float64{"float32": 0, "bf16": 0.01, "int8": 0.01}[c.base]
			want, got := loss(), s.History.Points[0].Valid.Loss
			if off := max(want-got, got-want); s.History.Points[0].Step != 0 || off > tolerance {
				t.Errorf("the loss at the beginning is %v, that of the model %v", got, want)
			}
			if res.BestLoss >= got-0.01 {
				t.Errorf("the loss goes from %v to %v", got, res.BestLoss)
			}
			for name, text := range contents(t, at) {
				if before[name] != text {
					t.Errorf("%s of the model has changed", name)
				}
			}
			files := contents(t, filepath.Join(run.Out, model.BestDir))
			delete(files, checkpoint.ManifestFile)
			if len(files) != 2 || files[release.AdapterConfigFile] == "" {
				t.Errorf("the best checkpoint has %d files, want those of the adapter", len(files))
			}
			a, err := release.ReadAdapter(run.Out)
			if err != nil || a.Weights != m.WeightsFingerprint() || !filepath.IsAbs(a.Path) {
				t.Fatalf("%+v, %v", a, err)
			}
			if err := a.Attach(m, a.Path, ""); err != nil {
				t.Fatal(err)
			}
			if got := loss(); max(got-res.BestLoss, res.BestLoss-got) > tolerance {
				t.Errorf("the model with the adapter has the loss %v, want %v", got, res.BestLoss)
			}
			card, err := os.ReadFile(filepath.Join(run.Out, CardFile))
			if err != nil || !strings.Contains(string(card), "| adapter | ") ||
				!strings.Contains(string(card), "rank 4") {
				t.Errorf("card: %v\n%s", err, card)
			}

			part := run
			part.Out = filepath.Join(t.TempDir(), "part")
			ctx, cancel := context.WithCancel(t.Context())
			stopped, err := Run(ctx, part, train.Events{Step: func(p train.Progress) {
				if p.Step == 3 {
					cancel()
				}
			}})
			cancel()
			if err != nil || !stopped.Interrupted {
				t.Fatalf("%+v, %v", stopped, err)
			}
			resumed, err := ReadRun(part.Out)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Resume(t.Context(), resumed, train.Events{}); err != nil {
				t.Fatal(err)
			}
			for _, sub := range []string{model.BestDir, model.LastDir} {
				whole, again := contents(t, filepath.Join(run.Out, sub)), contents(t, filepath.Join(part.Out, sub))
				if whole[release.AdapterWeightsFile] != again[release.AdapterWeightsFile] {
					t.Errorf("a resumed run has another adapter in %s", sub)
				}
			}
			last := contents(t, filepath.Join(part.Out, model.LastDir))
			if len(last["optimizer.safetensors"]) > 3*len(last[release.AdapterWeightsFile]) ||
				last[model.WeightsFile] != "" {
				t.Errorf("moments of %d bytes, an adapter of %d", len(last["optimizer.safetensors"]),
					len(last[release.AdapterWeightsFile]))
			}
		})
	}
}

// TestLoRAOnAnyNumberOfCores checks that one seed gives one adapter on any number of cores.
func TestLoRAOnAnyNumberOfCores(t *testing.T) {
	first := small(t)
	mustRun(t, first)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	want := ""
	for _, cores := range []int{1, 2, 4} {
		runtime.GOMAXPROCS(cores)
		c := adapting(t, first.Out, "int8")
		mustRun(t, c)
		got := contents(t, filepath.Join(c.Out, model.LastDir))[release.AdapterWeightsFile]
		if want == "" {
			want = got
		}
		if got != want || got == "" {
			t.Errorf("the adapter made with GOMAXPROCS=%d differs from that with 1", cores)
		}
	}
}

// TestLoRANeedsItsModel checks that a run whose base was removed or changed cannot be resumed, with an error that says
// so, and that a base file that cannot be used together with an adapter is refused at the start.
func TestLoRANeedsItsModel(t *testing.T) {
	base := copied(t, "06_mamba_lm_a", "model.safetensors", "config.json")
	c := adapting(t, base, "float32")
	c.LoRA.Rank = 1
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Run(ctx, c, train.Events{Step: func(p train.Progress) {
		if p.Step == 2 {
			cancel()
		}
	}}); err != nil {
		t.Fatal(err)
	}
	cancel()
	run, err := ReadRun(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	if last := contents(t, filepath.Join(c.Out, model.LastDir)); last[release.AdapterConfigFile] == "" {
		t.Error("an adapter of rank 1 is not saved as one")
	}
	m, _, err := release.LoadDir(base)
	if err != nil {
		t.Fatal(err)
	}
	m.Tensors()[3].Data[0]++
	if err := m.Save(base); err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(t.Context(), run, train.Events{}); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("over another model: %v", err)
	}
	if err := os.RemoveAll(base); err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(t.Context(), run, train.Events{}); err == nil ||
		!strings.Contains(err.Error(), "cannot be resumed without it") {
		t.Errorf("without the model: %v", err)
	}
	file := filepath.Join(copied(t, "06_mamba_lm_a", "model.safetensors", "config.json"), "model.safetensors")
	c = small(t)
	c.LoRA = LoRA{Rank: 4}
	if err := c.StartFrom(file, file); err == nil || !strings.Contains(err.Error(), "want a folder or a .gguf file") {
		t.Errorf("a file: %v", err)
	}
}

// TestLoRASettings checks that all settings that contradict each other are reported.
func TestLoRASettings(t *testing.T) {
	first := small(t)
	mustRun(t, first)
	settings := func(lines string) (Config, error) {
		text := "data: [" + first.Data[0] + "]\ncache: none\n" + lines
		return LoadNew(config.Options{File: "settings.yaml", FileData: []byte(text)},
			func(name string) (string, error) { return name, nil })
	}
	c, err := settings("init: " + first.Out + "\nlora: {rank: 8, target: [mlp]}")
	if err != nil {
		t.Fatal(err)
	}
	if c.Optim.LR != 10*0.05/16 || c.LoRA.alpha() != 16 {
		t.Errorf("learning rate %g, alpha %g", c.Optim.LR, c.LoRA.alpha())
	}
	for lines, want := range map[string][]string{
		"lora: {rank: 8}": {"lora.rank: found 8 without init"},
		"init: " + first.Out + "\nlora: {rank: 17}": {"lora.rank: found 17, want 1 to 16"},
		"init: " + first.Out + "\nlora: {rank: 2, target: [q_prj, x]}": {
			`lora.target: "q_prj" matches no`, `lora.target: "x"`},
		"init: " + first.Out + "\nlora: {rank: 2, base: int3}":         {"lora.base", "int4"},
		"init: " + first.Out + "\nlora: {rank: 2, alpha: -1}":          {"lora.alpha: found -1"},
		"init: " + first.Out + "\nlora: {rank: 2, dropout: 1}":         {"lora.dropout: found 1, want"},
		"init: " + first.Out + "\nlora: {dropout: 0.1}":                {"lora.rank: found 0 together"},
		"init: " + first.Out + "\nlora: {target: [mlp]}":               {"lora.rank: found 0 together"},
		"init: " + first.Out + "\nlora: {rank: 2}\nfreeze: [backbone]": {"freeze: found", "want one of them"},
	} {
		_, err := settings(lines)
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", lines, err, part)
			}
		}
	}
	bare := adapting(t, first.Out, "") // like settings of a version without adapters
	bare.Train.Clock = train.WallClock
	bare.Memory = train.MemoryCheck
	mustRun(t, bare)
	if again, _, err := RunOf(bare.Out); err != nil || again.LoRA.Base != "float32" {
		t.Errorf("a run of settings without a precision: %+v, %v", again.LoRA, err)
	}
	_, err = release.ReadAdapter(first.Out)
	if err == nil || errors.Is(err, release.ErrBase) {
		t.Errorf("a run without an adapter: %v", err)
	}
}

// TestLoRAEstimate checks that a run needs memory for the adapter's gradients and moments and for the model in its
// precision, so that 1.3 billion parameters fit into 8 GB.
func TestLoRAEstimate(t *testing.T) {
	first := small(t)
	mustRun(t, first)
	full := going(t, first.Out)
	all, err := full.Estimate(256)
	if err != nil {
		t.Fatal(err)
	}
	below := 4*all.Params + 1
	for _, base := range bases {
		c := adapting(t, first.Out, base)
		c.LoRA.Rank = 2
		e, err := c.Estimate(256)
		if err != nil {
			t.Fatal(err)
		}
		of := e.Weights - 4*e.Trained // the weights of the model
		if e.Trained >= all.Trained/4 || e.Params != all.Params+e.Trained || e.Moments != 8*e.Trained || of >= below ||
			e.Activations <= 0 {
			t.Errorf("%s: %+v, of the whole model %+v", base, e, all)
		}
		below = of
	}
	c, err := Preset("h3-1.3b")
	if err != nil {
		t.Fatal(err)
	}
	c.LoRA = LoRA{Rank: 16, Base: "int8"}
	m, err := model.New(c.shape(50257))
	if err != nil {
		t.Fatal(err)
	}
	n, err := c.freeze(m)
	if err != nil {
		t.Fatal(err)
	}
	const gib = 1 << 30
	if got := n.Bytes(c.Train.Shards); got > 3*gib || n.All < 13e8 || n.Trained > n.All/50 {
		t.Errorf("%+v: weights, gradients and moments take %d bytes, want at most 3 GiB", n, got)
	}
}
