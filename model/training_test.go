package model

import (
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/optim"
	"github.com/hippo-ssm/hippo/tensor"
)

// wide returns a model so wide that a few hundred positions make several pieces of every loop that cores share.
func wide(t *testing.T) *Model {
	t.Helper()
	cfg := hybrid(t, every()).Config
	cfg.DModel, cfg.VocabSize = 48, 100
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	return m
}

// TestAnyNumberOfCores checks that three steps of training give the same bits on 1, 2 and 4 cores.
func TestAnyNumberOfCores(t *testing.T) {
	const b, l = 4, 150
	train := func(cores int) (bits []float32) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
		m := wide(t)
		m.Config.EmbedDropout, m.Config.ResidDropout = 0.1, 0.1
		var params []optim.Param
		m.Params("", func(name string, p *nn.Param) {
			params = append(params, optim.Param{Name: name, Tensor: p.Tensor, LR: 1e-2, Decay: 0.1})
		})
		tape := autograd.NewTape(cpu.Backend{})
		opt := optim.NewAdamW(tape.Backend(), params, 0.9, 0.95, 1e-8, 1)
		grads := autograd.NewGradients(tape.Backend(), opt.Tensors()...)
		tape.Collect(grads)
		tape.Record(true)
		rows := EqualRows(b, l)
		for step := range uint64(3) {
			tape.Reset()
			ids := text(step, b*l)
			rows.Train(engine.RowSeeds(1, int(step), 0, b)...)
			loss := m.Loss(tape, m.Forward(tape, ids, rows), ids)
			bits = append(bits, read(loss)...)
			tape.Backward(loss)
			for _, g := range grads.Each() {
				bits = append(bits, read(g)...)
			}
			bits = append(bits, float32(opt.Step(grads.Each(), 1, 1)))
		}
		for _, p := range params {
			bits = append(bits, read(p.Tensor)...)
		}
		return bits
	}
	want := train(1)
	if !slices.ContainsFunc(want, func(v float32) bool { return v != 0 }) ||
		slices.ContainsFunc(want, func(v float32) bool { return v != v }) {
		t.Fatal("nothing was trained")
	}
	for _, cores := range []int{2, 4} {
		if !slices.Equal(train(cores), want) {
			t.Errorf("%d cores give other losses, gradients or weights than one", cores)
		}
	}
}

// TestBatchGradients checks that logits of a batch equal those of each sequence alone, bit by bit, and that its
// gradients are their mean.
func TestBatchGradients(t *testing.T) {
	const b, l = 4, 150
	m := wide(t)
	ids := text(7, b*l)
	v := m.Config.PaddedVocab()
	run := func(ids []int32, b int) (logits []float32, loss float64, grads map[string][]float32) {
		tape := autograd.NewTape(cpu.Backend{})
		tape.Record(true)
		hidden := m.Forward(tape, ids, EqualRows(b, l))
		logits = read(m.Logits(tape, hidden))
		mean := m.Loss(tape, hidden, ids)
		loss = float64(read(mean)[0])
		tape.Backward(mean)
		return logits, loss, gradients(tape, m)
	}
	logits, loss, grads := run(ids, b)
	sum, losses := map[string][]float32{}, 0.0
	for i := range b {
		y, one, g := run(ids[i*l:][:l], 1)
		if !slices.Equal(y, logits[i*l*v:][:l*v]) {
			t.Errorf("sequence %d has other logits alone", i)
		}
		losses += one / b
		for name, x := range g {
			if sum[name] == nil {
				sum[name] = make([]float32, len(x))
			}
			for j, d := range x {
				sum[name][j] += d / b
			}
		}
	}
	if math.Abs(loss-losses) > 1e-6*loss {
		t.Errorf("loss %v, the mean of each is %v", loss, losses)
	}
	for name, g := range grads {
		near(t, "gradient of "+name, g, sum[name], 1e-4)
	}
}

// TestFrozenParameters checks that a frozen parameter gets no gradient and that the gradients of the others do not
// change. The n-th parameters of all layers are frozen at a time.
func TestFrozenParameters(t *testing.T) {
	m := hybrid(t, every())
	ids := text(5, 60)
	want := run(m, ids, 2, []int{30}).grads
	var ranks []map[string]*nn.Param
	seen := map[string]int{}
	m.Params("", func(name string, p *nn.Param) {
		layer, _, _ := strings.Cut(strings.TrimPrefix(name, "backbone.layers."), ".")
		if n := seen[layer]; n == len(ranks) {
			ranks = append(ranks, map[string]*nn.Param{})
		}
		ranks[seen[layer]][name] = p
		seen[layer]++
	})
	if len(ranks) < 10 || len(ranks[0]) < len(m.Blocks) {
		t.Fatalf("found %d ranks of parameters, %d in the first, of %d layers", len(ranks), len(ranks[0]),
			len(m.Blocks))
	}
	for n, frozen := range ranks {
		was := map[string]bool{}
		for name, p := range frozen {
			was[name] = p.NeedsGrad()
			p.SetNeedsGrad(false)
		}
		for name, g := range run(m, ids, 2, []int{30}).grads {
			switch _, still := frozen[name]; {
			case still && g != nil:
				t.Errorf("%s is frozen and has a gradient", name)
			case !still && !slices.Equal(g, want[name]):
				t.Errorf("with the parameters %d of all layers frozen, %s has another gradient", n, name)
			}
		}
		for name, p := range frozen {
			p.SetNeedsGrad(was[name])
		}
	}
}

// TestStepMemory checks that a training step allocates the same few objects for any number and length of sequences, and
// that a second step allocates no memory for tensors. Every loop shared between cores costs an object, and another if
// its caller has to wait. The smallest of the steps compared here has enough work for all loops to be shared.
func TestStepMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty the pools of the cores
	// Mixers with a maximum length get one that is long enough; mixers with blocks of several operations get one block.
	layers := strings.NewReplacer("gmlp", "gmlp(l_max=1500)", "block-recurrent",
		"block-recurrent(block=2000)").Replace(every())
	cfg := hybrid(t, layers+",h3").Config
	cfg.DModel, cfg.NumHeads, cfg.ResidDropout = 32, 1, 0.1
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	var params []*tensor.Tensor
	m.Params("", func(_ string, p *nn.Param) { params = append(params, p.Tensor) })
	objects := func(b, l int) int {
		ids, tape := text(6, b*l), autograd.NewTape(cpu.Backend{})
		tape.Collect(autograd.NewGradients(tape.Backend(), params...))
		tape.Record(true)
		rows := EqualRows(b, l)
		rows.Train(make([]uint64, b)...)
		var held [4]int
		var made [4]uint64
		for i := range held {
			tape.Reset()
			tape.Backward(m.Loss(tape, m.Forward(tape, ids, rows), ids))
			held[i] = tape.Bytes()
			var s runtime.MemStats
			runtime.ReadMemStats(&s)
			made[i] = s.Mallocs
		}
		if held[0] == 0 || held[1] != held[3] {
			t.Errorf("batch %d, length %d: the arena holds %v bytes after each step", b, l, held)
		}
		return int(min(made[2]-made[1], made[3]-made[2])) // a pool may grow before all cores are busy
	}
	for _, cores := range []int{1, 2} {
		old := runtime.GOMAXPROCS(cores)
		want := objects(12, 90)
		for _, s := range [][2]int{{1, 1500}, {24, 90}} {
			if got := objects(s[0], s[1]); got > want+want/2 {
				t.Errorf("%d cores: a step makes %d objects at batch %d, length %d, and %d at batch 12, length 90",
					cores, got, s[0], s[1], want)
			}
		}
		t.Logf("%d cores: %d objects per step of %d layers", cores, want, len(m.Blocks))
		runtime.GOMAXPROCS(old)
	}
}
