package text

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/train"
)

// small returns the configuration of a hybrid that trains in milliseconds, with dropout, shards and everything that a
// checkpoint can hold.
func small(t testing.TB) Config {
	t.Helper()
	c, err := Preset("tiny")
	if err != nil {
		t.Fatal(err)
	}
	c.Model.DModel, c.Model.NLayer, c.Model.DState, c.Model.NumHeads, c.Model.AttnIdx = 16, 2, 8, 2, []int{1}
	c.Model.EmbedDropout, c.Model.AttnDropout, c.Model.ResidDropout = 0.1, 0.1, 0.1
	c.Train = Loop{Steps: 6, BatchSize: 2, SeqLen: 32, Shards: 2, EvalEvery: 2, EvalTokens: 256, SampleEvery: 4,
		SamplePrompt: "The ", SampleTokens: 8, SaveEvery: 2, LogEvery: 1}
	c.Optim.Warmup = 2
	c.Cache, c.Out = "none", filepath.Join(t.TempDir(), "run")
	text := strings.Repeat("the quick brown fox jumps over the lazy dog; ", 60)
	file := filepath.Join(t.TempDir(), "text.txt")
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	c.Data = []string{file}
	return c
}

func weights(t testing.TB, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, model.LastDir, model.WeightsFile))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func mustRun(t testing.TB, c Config) Result {
	t.Helper()
	res, err := Run(context.Background(), c, train.Events{})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// newRun returns a run before its first update. Its data is closed when the test ends.
func newRun(t testing.TB, c Config) *run {
	t.Helper()
	d, err := c.OpenData(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	w, err := New(c, d)
	if err != nil {
		t.Fatal(err)
	}
	r, err := begin(w)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// runUntil starts a run and interrupts it after a step.
func runUntil(t testing.TB, c Config, step int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := Run(ctx, c, train.Events{Step: func(p train.Progress) {
		if p.Step == step {
			cancel()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSameWeights checks that one seed gives the same weights on any number of cores, at each precision.
func TestSameWeights(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	trained := map[string]string{}
	for _, precision := range []string{"float32", "bf16"} {
		for _, cores := range []int{1, 2, 4} {
			runtime.GOMAXPROCS(cores)
			c := small(t)
			c.Precision = precision
			mustRun(t, c)
			got := weights(t, c.Out)
			if cores == 1 {
				trained[precision] = got
			}
			if got != trained[precision] {
				t.Errorf("%s: weights with GOMAXPROCS=%d differ from those with 1", precision, cores)
			}
		}
	}
	if trained["bf16"] == trained["float32"] {
		t.Error("bf16 gave the same weights as float32")
	}
	c := small(t)
	c.Seed++
	mustRun(t, c)
	if weights(t, c.Out) == trained["float32"] {
		t.Error("another seed gave the same weights")
	}
}

// TestResume checks that a run that is interrupted after any step, saved and resumed ends with the same weights as an
// uninterrupted one.
func TestResume(t *testing.T) {
	for _, carry := range []bool{false, true} {
		whole := small(t)
		whole.Train.CarryState = carry
		mustRun(t, whole)
		want := weights(t, whole.Out)
		for stop := 1; stop < whole.Train.Steps; stop += 2 {
			c := small(t)
			c.Data, c.Train.CarryState = whole.Data, carry
			ctx, cancel := context.WithCancel(context.Background())
			res, err := Run(ctx, c, train.Events{Step: func(p train.Progress) {
				if p.Step == stop {
					cancel()
				}
			}})
			cancel()
			if err != nil || !res.Interrupted || res.Step != stop {
				t.Fatalf("interrupting step %d: %+v, %v", stop, res, err)
			}
			cfg, err := ReadRun(c.Out)
			if err != nil {
				t.Fatal(err)
			}
			if res, err := Resume(context.Background(), cfg, train.Events{}); err != nil || res.Step != c.Train.Steps {
				t.Fatalf("resuming at step %d: %+v, %v", stop, res, err)
			}
			if weights(t, c.Out) != want {
				t.Errorf("carry_state %v: weights differ after a stop at step %d", carry, stop)
			}
		}
	}
}

// TestRunFolder checks the files that a run leaves behind, and that a second run does not overwrite them.
func TestRunFolder(t *testing.T) {
	c := small(t)
	res := mustRun(t, c)
	for _, name := range []string{train.ConfigFile, CardFile, "metrics.jsonl", "best/config.json",
		"best/tokenizer.json",
		"best/model.safetensors",
		"last/optimizer.safetensors", "last/trainer.json", "last/model.safetensors"} {
		if _, err := os.Stat(filepath.Join(c.Out, name)); err != nil {
			t.Error(err)
		}
	}
	card, err := os.ReadFile(filepath.Join(c.Out, CardFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"validation loss", "sha256 ", "fingerprint ", "commit", "## Sample", "The ",
		"## Configuration", "d_model: 16"} {
		if !strings.Contains(string(card), want) {
			t.Errorf("%s has no %q", CardFile, want)
		}
	}
	if math.IsNaN(res.ValidLoss) || res.BestLoss > res.ValidLoss+1e-9 {
		t.Errorf("validation loss %v, best %v", res.ValidLoss, res.BestLoss)
	}
	if _, err := Run(context.Background(), c, train.Events{}); err == nil || !strings.Contains(err.Error(),
		"--resume") {
		t.Errorf("a second run in the folder: got %v, want an error that says how to resume", err)
	}
}

// TestLearns checks that the loss of a repeating text falls far below that of guessing.
func TestLearns(t *testing.T) {
	c := small(t)
	c.Model.EmbedDropout, c.Model.AttnDropout, c.Model.ResidDropout = 0, 0, 0
	c.Train.Steps, c.Train.EvalEvery, c.Train.SaveEvery, c.Train.SampleEvery, c.Train.Shards = 120, 1000, 1000, 0, 1
	c.Optim.LR, c.Optim.SSMLR = 1e-2, 1e-3
	if res := mustRun(t, c); res.ValidLoss > 1.2 {
		t.Errorf("validation loss %.3f after 120 steps on one sentence, want below 1.2 (guessing: 5.5)", res.ValidLoss)
	}
}

// TestNonFinite checks that a loss that becomes NaN stops the run, keeps the last checkpoint, and that the error names
// step and tensor.
func TestNonFinite(t *testing.T) {
	c := small(t)
	c.Train.SaveEvery = 1
	poisoned := newRun(t, c)
	const name = "backbone.layers.1.mlp.fc1.weight"
	_, err := poisoned.run(context.Background(), train.Events{Saved: func(_ string, step int) {
		if step == 3 {
			poison(poisoned.work.Model, name)
		}
	}})
	var broke *train.NonFiniteError
	if !errors.As(err, &broke) || broke.Step != 4 || broke.What != "loss" || !strings.Contains(broke.Where, name) {
		t.Fatalf("got %v, want a NonFiniteError at step 4 that names %s", err, name)
	}
	m, _, err := release.LoadDir(filepath.Join(c.Out, model.LastDir))
	if err != nil || m == nil {
		t.Fatalf("the last good checkpoint: %v", err)
	}
}

// TestNonFiniteResult checks that the error names the part of the model and the operation if all weights are finite but
// a result is not. The weights here are so large that a product overflows.
func TestNonFiniteResult(t *testing.T) {
	c := small(t)
	r := newRun(t, c)
	r.work.Model.Params("", func(name string, p *nn.Param) {
		if strings.HasSuffix(name, "layers.0.mlp.fc1.weight") || strings.HasSuffix(name, "layers.0.mlp.fc2.weight") {
			x := make([]float32, p.Len())
			for i := range x {
				x[i] = 1e30
			}
			p.CopyFrom(x)
		}
	})
	_, _, err := r.loop.Step()
	var broke *train.NonFiniteError
	if !errors.As(err, &broke) || !strings.Contains(broke.Where, "backbone.layers.0.mlp (Linear)") {
		t.Errorf("got %v, want a NonFiniteError that names backbone.layers.0.mlp", err)
	}
}

func poison(m *model.Model, name string) {
	m.Params("", func(n string, p *nn.Param) {
		if n == name {
			x := make([]float32, p.Len())
			x[0] = float32(math.NaN())
			p.CopyFrom(x)
		}
	})
}

// TestStepAllocations checks that the allocations of a step do not grow with batch or length.
func TestStepAllocations(t *testing.T) {
	bytes := func(batch, l int) (allocs float64, arena int) {
		c := small(t)
		c.Train.BatchSize, c.Train.SeqLen = batch, l
		r := newRun(t, c)
		step := func() {
			if _, _, err := r.loop.Step(); err != nil {
				t.Fatal(err)
			}
		}
		step()
		before := r.loop.Tape().Bytes()
		allocs = testing.AllocsPerRun(3, step)
		if after := r.loop.Tape().Bytes(); after != before {
			t.Errorf("batch %d, length %d: the arena grew from %d to %d bytes", batch, l, before, after)
		}
		return allocs, before
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	few, _ := bytes(2, 32)
	many, _ := bytes(8, 256)
	t.Logf("allocations per step: %.0f at 2×32 tokens, %.0f at 8×256", few, many)
	if many > 1.5*few+50 {
		t.Errorf("a step of 8×256 tokens makes %.0f allocations, one of 2×32 makes %.0f; want no growth", many, few)
	}
}

// TestFixedLength checks that a model with a mixer of fixed length is not trained on longer or endless sequences.
func TestFixedLength(t *testing.T) {
	for _, endless := range []bool{false, true} {
		c := small(t)
		c.Model.Layers, c.Model.AttnIdx, c.Model.NLayer = "h3,gmlp(l_max=31)", nil, 0
		if c.Train.CarryState = endless; endless {
			c.Train.SeqLen = 16
		}
		_, run := Run(context.Background(), c, train.Events{})
		_, estimate := c.Estimate(256)
		for _, err := range []error{run, estimate} {
			if err == nil || !strings.Contains(err.Error(), "takes at most 31 tokens") {
				t.Errorf("endless %v: %v", endless, err)
			}
		}
	}
}

// TestTogether checks that on several machines a step takes the time of one machine's shards and of the exchange at the
// speed of the network. The part of the exchange that overlaps with the backward pass of the last shard does not count:
// all but the embedding, if there is time. The processor time per byte counts for all bytes.
func TestTogether(t *testing.T) {
	c := small(t)
	c.Train.Shards = 16
	e := Estimate{Trained: 1e6, Embedding: 2e5, StepSeconds: 1.6, RunSeconds: 160, Total: 1e9}
	for _, x := range []struct {
		machines int
		network  string
		shards   int
		late     bool
		exchange float64 // seconds, excluding tokens
	}{{4, "1Gbit", 4, false, 0.2 * 1.5 * 4e6 / 125e6 / payload}, {4, "1Gbit", 4, true, 1.5 * 4e6 / 125e6 / payload},
		{2, "100Mbit/s", 8, false, 4e6/12.5e6/payload - 0.1*2/3}, {1, "1Gbit", 16, false, 0}} {
		c.Train.Recompute = x.late
		got, err := c.Together(e, x.machines, x.network)
		if err != nil {
			t.Fatal(err)
		}
		step := 0.1*float64(x.shards) + x.exchange
		rate, _ := ParseRate(x.network)
		step += 8 * float64(c.Train.tokensPerStep()) * float64(x.machines-1) / float64(x.machines) / rate / payload
		if got.Shards != x.shards || math.Abs(got.StepSeconds-step) > 1e-9 ||
			math.Abs(got.TokensPerSec*step-float64(c.Train.tokensPerStep())) > 1e-6 ||
			math.Abs(got.RunSeconds-100*step) > 1e-6 || math.Abs(got.Of-1.6/float64(x.machines)/step) > 1e-9 {
			t.Errorf("%+v: %+v, want a step of %g s", x, got, step)
		}
	}
	whole, err := c.Together(e, 4, "1Gbit")
	c.Train.Moments = momentsSplit
	split, bad := c.Together(e, 4, "1Gbit")
	if err != nil || bad != nil || whole.Memory-split.Memory != 4e6 || math.Abs(split.Sent-whole.Sent-2e6) > 1 {
		t.Errorf("with moments of 8 MB split on 4: %+v, %v, want 4 MB and 2 MB sent besides %+v", split, bad, whole)
	}
	e.PerByte = 1e-8
	costly, err := c.Together(e, 4, "1Gbit")
	if err != nil || math.Abs(costly.StepSeconds-split.StepSeconds-0.08) > 1e-9 {
		t.Errorf("8 MB of 10 ns a byte: %+v, %v, want 0.08 s more than %+v", costly, err, split)
	}
	for network, machines := range map[string]int{"1Gbit": 17, "fast": 2, "0Gbit": 2, "-1Gbit": 2, "": 2, "1": 2,
		"nanGbit": 2} {
		if got, err := c.Together(e, machines, network); err == nil {
			t.Errorf("%d machines, network %q: %+v, want an error", machines, network, got)
		}
	}
}

// TestEstimate checks that the estimated memory is that of a step.
func TestEstimate(t *testing.T) {
	c := small(t)
	e, err := c.Estimate(256)
	if err != nil {
		t.Fatal(err)
	}
	m := c.Model
	m.VocabSize = 256
	net, err := model.New(m)
	if err != nil {
		t.Fatal(err)
	}
	if e.Params != net.NumParams() || e.Weights != 4*e.Params || e.Moments != 8*e.Params {
		t.Errorf("%+v, want %d parameters", e, net.NumParams())
	}
	net.Init(1)
	tape := autograd.NewTape(cpu.Backend{})
	tape.Record(true)
	ids := make([]int32, c.Train.BatchSize*c.Train.SeqLen)
	for range 2 {
		tape.Reset()
		tape.Backward(net.Loss(tape, net.Forward(tape, ids, model.EqualRows(c.Train.BatchSize, c.Train.SeqLen)), ids))
	}
	got := float64(e.Activations) / float64(tape.Bytes())
	if got < 0.9 || got > 1.3 { // dropout's results come in addition
		t.Errorf("activations: estimated %d bytes, a step without dropout holds %d", e.Activations, tape.Bytes())
	}
}
