package text

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/engine/native"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// roomy returns the configuration of a small run whose layers are all alike.
func roomy(t testing.TB) Config {
	c := small(t)
	c.Model.DModel, c.Model.AttnIdx, c.Model.VocabSize, c.Model.Mixer = 8, nil, 40, "gated-conv"
	c.Train.SeqLen, c.Train.BatchSize, c.Train.Shards = 16, 3, 4
	return c
}

// TestRoomOfRuns checks that a run is refused if its weights, gradients, moments, activations and states exceed the
// free memory by a byte, and that no run is refused if memory is not checked.
func TestRoomOfRuns(t *testing.T) {
	for _, chunk := range []int{0, 4, 1} {
		c := roomy(t)
		if c.Train.Chunk, c.Train.SeqLen = chunk, 64; chunk == 1 { // the weights take much more memory than the rest
			c.Train.Chunk, c.Train.SeqLen, c.Train.BatchSize, c.Model.DModel, c.Model.VocabSize = 0, 1, 1, 32, 9000
		}
		params, err := c.countParams(c.Model)
		if err != nil {
			t.Fatal(err)
		}
		run, err := c.probes(c.Model)
		if err != nil {
			t.Fatal(err)
		}
		activations, err := run.activations()
		if err != nil {
			t.Fatal(err)
		}
		m, err := model.New(c.Model)
		if err != nil {
			t.Fatal(err)
		}
		states := 0
		if chunk > 1 {
			states = 3 * (64/4 + 1) * m.NewState().Size()
		}
		if got := c.statesBetween(c.Model); got != states {
			t.Errorf("the states between chunks take %d bytes, want %d", got, states)
		}
		need := params.Bytes(4) + activations + states
		for free, want := range map[int]string{need: "", need - 1: "activations", params.Bytes(4) - 1: "weights",
			math.MaxInt64 / 2: ""} {
			err := c.checkRoom(status.Memory{Bytes: uint64(free), Of: "of it"}, 40)
			var e *train.MemoryError
			if want == "" && err != nil || want != "" && (!errors.As(err, &e) || (e.Activations > 0) != (want ==
				"activations")) {
				t.Errorf("%d bytes of %d: %v", free, need, err)
			}
			if want == "activations" && (e.Activations != activations+states || e.Need != need) {
				t.Errorf("%+v, want %d bytes and %d states", e, need, states)
			}
		}
	}
	c := roomy(t)
	c.Train.Chunk, c.Train.Gradients = 4, gradientsStopped
	if got := c.statesBetween(c.Model); got != 0 {
		t.Errorf("stopped gradients keep states of %d bytes", got)
	}
	c = roomy(t)
	c.Train.Chunk = 4
	if got := c.statesBetween(model.Config{}); got != 0 {
		t.Errorf("no shape keeps states of %d bytes", got)
	}
	if c.checkRoom(status.Memory{Bytes: 1 << 40}, 40) != nil {
		t.Error("a terabyte does not do")
	}
	c.Model.DModel = -1
	if c.checkRoom(status.Memory{Bytes: 1 << 40}, 40) == nil {
		t.Error("no shape fits")
	}
	c.Model.DModel, c.Model.NLayer, c.Memory = 1<<16, 100, train.MemoryIgnore // more than any machine has
	if err := c.checkMemory(40); err != nil {
		t.Errorf("memory is checked: %v", err)
	}
	c.Memory = train.MemoryCheck
	if _, known := status.FreeMemory(); known && c.checkMemory(40) == nil {
		t.Error("memory is not checked")
	}
}

// TestBatchesThatFit checks that the sequences of an update are split into the fewest shards that fit into nine tenths
// of the free memory.
func TestBatchesThatFit(t *testing.T) {
	c := roomy(t)
	c.Train.BatchSize, c.Train.Shards = 12, 1
	params, err := c.countParams(c.Model)
	if err != nil {
		t.Fatal(err)
	}
	run, err := c.probes(c.Model)
	if err != nil {
		t.Fatal(err)
	}
	all, err := run.activations()
	if err != nil {
		t.Fatal(err)
	}
	need := func(batch int) int { return params.Bytes(12/batch) + all/12*batch }
	if said, err := c.FitBatch(40); err != nil || c.Train.BatchSize != 12 || !strings.HasPrefix(said,
		"batch auto: 12 ") {
		t.Errorf("%q, %v", said, err)
	}
	one := params.Bytes(1) + all
	for _, k := range []struct{ free, batch int }{
		{one/9*10 + 20, 12}, {one/9*10 - 20, 6}, {need(6)/9*10 + 200, 6}, {need(6)/9*10 - 200, 4},
		{need(1)/9*10 + 200, 1}, {need(1)/9*10 - 200, 0}, {params.Bytes(1) + 1, 0},
		{params.Bytes(1) - 1, -1},
	} {
		c := roomy(t)
		said, err := c.fitBatch(status.Memory{Bytes: uint64(k.free), Of: "the machine"}, 40)
		if k.batch <= 0 {
			var e *train.MemoryError
			if !errors.As(err, &e) || (e.Activations > 0) != (k.batch == 0) || k.batch == 0 && e.Need != one ||
				k.batch == 0 && int(e.Free.Bytes) != k.free/10*9 {
				t.Errorf("%d bytes free: %q, %v", k.free, said, err)
			}
			continue
		}
		want := fmt.Sprintf("batch auto: %d sequences of 16 tokens at a time, %d of these shards in an update, "+
			"take about %s (the machine leaves %s)", k.batch, 12/k.batch, status.Bytes(uint64(params.Bytes(12/k.batch)+
			all/12*k.batch)), status.Bytes(uint64(k.free)))
		if err != nil || c.Train.BatchSize != k.batch || c.Train.Shards != 12/k.batch || said != want {
			t.Errorf("%d bytes free: %d sequences in %d shards, %v\n%s\nwant\n%s", k.free, c.Train.BatchSize,
				c.Train.Shards, err, said, want)
		}
	}
	c.Model.DModel = -1
	if _, err := c.fitBatch(status.Memory{Bytes: 1 << 40}, 40); err == nil {
		t.Error("no shape fits")
	}
}

// costs replaces the measurements by those of a synthetic machine: each layer costs a constant, a part per position of
// a sequence and a part per token; all layers together cost another constant and the loss.
func costs(run *probes, sizes *[][2]int) {
	of := func(l layer) float64 { return float64(1 + l.index%3) }
	run.measure = func(shape model.Config, layers []layer, batch, l int) (probed, error) {
		*sizes = append(*sizes, [2]int{batch, l})
		bytes := 5000 + 4*float64(native.Backend.LossMemory(batch*l, shape.DModel, shape.PaddedVocab(), run.frozenHead))
		seconds := float64(shape.VocabSize*l) * 1e-3
		for _, at := range layers {
			bytes += of(at) * float64(100+7*l+11*batch*l)
			seconds += of(at) * float64(l)
		}
		return probed{int(bytes), 10 * len(layers), seconds}, nil
	}
	run.time = run.measure
}

// TestExtrapolation checks that the extrapolation from probes of some layers and few tokens is exact if the costs are
// the sums that it assumes.
func TestExtrapolation(t *testing.T) {
	for _, k := range []struct {
		l, long, longer, timed int
	}{{300, 128, 300, 256}, {900, 128, 512, 256}, {100, 100, 132, 100}, {20, 20, 52, 20}} {
		c := small(t)
		c.Model.Layers, c.Model.AttnIdx, c.Model.VocabSize = "h3,attention,h3*2,mamba", nil, 200
		c.Train.SeqLen, c.Train.BatchSize = k.l, 5
		run, err := c.probes(c.Model)
		if err != nil {
			t.Fatal(err)
		}
		var sizes [][2]int
		costs(run, &sizes)
		head := 4 * native.Backend.LossMemory(5*k.l, 16, 200, false)
		// layers 0, 1 and 4 represent all: layers 2 and 3 are like layer 0
		weights := 1. + 2 + 1 + 1 + 2
		want := int(5000+weights*float64(100+7*k.l+11*5*k.l)) + head
		got, err := run.extrapolateBytes(c.Model)
		if err != nil || got != want {
			t.Errorf("length %d: %d bytes, %v, want %d", k.l, got, err, want)
		}
		if !slices.Equal(sizes[:3], [][2]int{{1, k.long}, {1, k.longer}, {2, k.longer}}) || len(sizes) != 6 {
			t.Errorf("length %d: the probes have the sizes %v", k.l, sizes)
		}
		if got, err := run.activations(); err != nil || got != want {
			t.Errorf("length %d: activations of %d bytes, %v, want %d", k.l, got, err, want)
		}
		sizes = nil
		p, err := run.extrapolate()
		if seconds := (weights + 0.2) * 5 * float64(k.l); err != nil || p.bytes != want || p.scratch != 40 ||
			math.Abs(p.seconds/seconds-1) > 1e-9 || sizes[len(sizes)-1] != [2]int{1, k.timed} {
			t.Errorf("length %d: %+v, %v, want %d bytes and %v s, in probes of %v", k.l, p, err, want, seconds, sizes)
		}
		run.Train.Recompute = true
		want = int(5000+4*float64(100+7*k.l+11*5*k.l)) + int(float64(100+7*k.l+11*5*k.l)) + head + 8*5*k.l*16*(5+2)
		if got, err := run.activations(); err != nil || got != want {
			t.Errorf("length %d: recomputed, activations of %d bytes, %v, want %d", k.l, got, err, want)
		}
		failed := errors.New("no")
		measured, calls := run.measure, 0
		for n := range 4 {
			calls = 0
			run.measure = func(shape model.Config, layers []layer, batch, l int) (probed, error) {
				if calls++; calls > n*3 {
					return probed{}, failed
				}
				return measured(shape, layers, batch, l)
			}
			run.time = run.measure
			run.Train.Recompute = false
			if _, err := run.extrapolate(); !errors.Is(err, failed) {
				t.Errorf("a probe fails, and all is well: %v", err)
			}
		}
	}
	c := small(t)
	c.Model.Layers, c.Model.AttnIdx, c.Model.VocabSize = "h3*3", nil, 200
	c.Model.DModel, c.Model.DInner, c.Train.SeqLen, c.Train.BatchSize = 1<<13, 1<<14, 64, 2
	run, err := c.probes(c.Model)
	if err != nil {
		t.Fatal(err)
	}
	narrow, width, params, err := run.narrowed()
	n := func(shape model.Config) float64 {
		shape.Layers = "h3*2"
		n, err := shape.CountParams()
		if err != nil {
			t.Fatal(err)
		}
		return float64(n)
	}
	if err != nil || n(narrow) > 1.2*narrowParams || n(narrow) < narrowParams/1.2 ||
		width != float64(1<<13)/float64(narrow.DModel) || params != n(c.Model)/n(narrow) {
		t.Errorf("%d wide, %v and %v times less, %v", narrow.DModel, width, params, err)
	}
	var sizes [][2]int
	costs(run, &sizes)
	run.Train.Recompute = true
	again, err := run.activations()
	least := (5000+float64(100+7*64+11*128)+float64(4*native.Backend.LossMemory(128, narrow.DModel, 200,
		false)))*width +
		8*2*64*(1<<13)*(3+2)
	if err != nil || math.Abs(float64(again)-least) > 2 {
		t.Errorf("recomputed, activations of %d bytes, %v, want %v", again, err, least)
	}
	run.Train.Recompute, sizes = false, nil
	p, err := run.extrapolate()
	each, head := 3*float64(100+7*64+11*128), 4*native.Backend.LossMemory(128, narrow.DModel, 200, false)
	if bytes := (5000 + each + float64(head)) * width; err != nil || math.Abs(float64(p.bytes)-bytes) > 2 ||
		math.Abs(p.seconds/(3.2*128*params)-1) > 1e-9 || sizes[0] != [2]int{1, 64} {
		t.Errorf("%+v, %v, want %v bytes and %v s, in probes of %v", p, err, bytes, 3.2*128*params, sizes)
	}
	c.Model.DModel, c.Model.DInner = 1<<11, 0 // makes the probe of one layer short
	for l, want := range map[int]int{20: 20, 64: 32} {
		c.Train.SeqLen, sizes = l, nil
		if run, err = c.probes(c.Model); err != nil {
			t.Fatal(err)
		}
		costs(run, &sizes)
		_, err := run.extrapolate()
		if err != nil || sizes[0] != [2]int{1, want} || sizes[1] != [2]int{1, want + 32} || sizes[2] != [2]int{2,
			want + 32} ||
			sizes[len(sizes)-1] != [2]int{1, want} {
			t.Errorf("%v, probes of wide layers have %v", err, sizes)
		}
	}
	for params, want := range map[int]int{1: 384, 1e8: 384, 2e8: 192, 5e8: 48, 1e10: 32} {
		if got := (&tinyShape{params: params}).further(1000); got != want {
			t.Errorf("%d parameters are measured over %d tokens, want %d", params, got, want)
		}
	}
	for params, want := range map[int]int{1: 512, 1e7: 512, 1.9531e7: 512, 1.9532e7: 32, 1e9: 32} {
		if got := (&tinyShape{params: params}).length(512); got != want {
			t.Errorf("%d parameters are measured at %d tokens, want %d", params, got, want)
		}
	}
}

// TestProbesOfChunks checks that a run in chunks is measured by chunks, and that invalid shapes or settings are errors.
func TestProbesOfChunks(t *testing.T) {
	c := small(t)
	c.Model.VocabSize, c.Train.Chunk = 256, 8
	run, err := c.probes(c.Model)
	if err != nil || run.Train.SeqLen != 8 || c.Train.SeqLen != 32 {
		t.Errorf("probes of %d tokens, %v", run.Train.SeqLen, err)
	}
	if len(run.frozen) > 0 || run.frozenHead || run.layers[0].class == run.layers[1].class || run.layers[0].below {
		t.Errorf("%+v", run)
	}
	if _, err := c.probes(model.Config{}); err == nil {
		t.Error("no shape is measured")
	}
	c.Freeze = []string{"x"}
	if _, err := c.probes(c.Model); err == nil {
		t.Error("frozen parts that are none")
	}
	c.Freeze = []string{"backbone.embeddings", "backbone.layers.0"}
	if run, err = c.probes(c.Model); err != nil || !run.frozenHead || !run.layers[0].below || run.layers[1].below ||
		!run.frozen["backbone.embeddings.word_embeddings.weight"] {
		t.Errorf("%+v, %v", run, err)
	}
	for name, want := range map[string]string{"backbone.layers.12.mlp.fc1.weight": "12 mlp.fc1.weight true",
		"backbone.ln_f.weight": "0  false", "backbone.layers.x.y": "0  false"} {
		i, part, ok := layerOf(name)
		if got := fmt.Sprint(i, " ", part, " ", ok); got != want {
			t.Errorf("%s: found %s, want %s", name, got, want)
		}
	}
	c = small(t)
	c.Model.VocabSize, c.Model.Layers, c.Model.AttnIdx = 256, "h3*2,attention", nil
	c.LoRA = LoRA{Rank: 2, Base: "float32", Target: []string{"backbone.layers.1.mlp.fc1.weight", "out_proj"}}
	if run, err = c.probes(c.Model); err != nil || len(run.ranks) == 0 || run.layers[0].class == run.layers[1].class {
		t.Fatalf("%+v, %v", run, err)
	}
	for other, want := range map[string]bool{"fc1": true, "fc2": false} {
		same := c
		same.LoRA.Target = []string{"backbone.layers.0.mlp.fc1.weight", "backbone.layers.1.mlp." + other + ".weight"}
		if run, err := same.probes(c.Model); err != nil || (run.layers[0].class == run.layers[1].class) != want {
			t.Errorf("changes of fc1 and %s need the same: %v, want %v: %v", other, !want, want, err)
		}
	}
	classes, _ := run.classes()
	shape := c.Model
	shape.Layers = entries(classes[1:])
	m, err := model.New(shape)
	if err != nil {
		t.Fatal(err)
	}
	if err := run.freeze(m, classes[1:]); err != nil || m.Adapter() == nil {
		t.Fatalf("a probe has the adapter %v, %v", m.Adapter(), err)
	}
	// The probe has layers 1 and 2 of the run: the changes of its first layer are those of the run's second.
	names := []string{}
	for name := range run.ranks {
		if i, part, ok := layerOf(name); ok && i > 0 {
			names = append(names, fmt.Sprintf("backbone.layers.%d.%s", i-1, part))
		}
	}
	if len(m.Adapter().Changes) != len(names) || !slices.Contains(names, "backbone.layers.0.mlp.fc1.weight") {
		t.Errorf("%d matrices are changed, want %q", len(m.Adapter().Changes), names)
	}
	if s := run.ranks["backbone.layers.1.mlp.fc1.weight"]; s.Rank != 2 || s.Scale != 2 {
		t.Errorf("a change has %+v", s)
	}
	p, err := run.probe(shape, classes[1:], 1, 8)
	if err != nil || p.bytes <= 0 || p.scratch < 0 || p.seconds <= 0 || p.seconds > 10 {
		t.Errorf("%+v, %v", p, err)
	}
	longer, err := run.probe(shape, classes[1:], 2, 16)
	if err != nil || longer.bytes <= p.bytes {
		t.Errorf("%+v of four times as much as %+v, %v", longer, p, err)
	}
	run.Precision = "x"
	if _, err := run.probe(shape, classes[1:], 1, 8); err == nil {
		t.Error("a precision that is none")
	}
	shape.DModel = -1
	_, err = run.probe(shape, classes, 1, 8)
	toymodel.WantError(t, err, "d_model")
}

// TestSumsOfEstimates checks that the parts of an estimate add up, by real updates and by smaller ones.
func TestSumsOfEstimates(t *testing.T) {
	for _, k := range []struct {
		name   string
		change func(c *Config)
	}{
		{"measured", func(*Config) {}}, {"time", func(c *Config) { c.Train.Time = time.Second }},
		{"recompute", func(c *Config) { c.Train.Recompute = true }},
		{"chunks", func(c *Config) { c.Train.Chunk = 4 }},
		{"large", func(c *Config) { c.Train.BatchSize, c.Train.SeqLen, c.Train.Shards = 1<<14, 1<<10, 1 }},
		{"large", func(c *Config) { // just too large to be measured
			params, _ := c.countParams(c.Model)
			c.Train.BatchSize, c.Train.SeqLen = int(1.1*estimateFlops/6/256/float64(params.All)), 256
		}},
	} {
		c := roomy(t)
		k.change(&c)
		e, err := c.Estimate(40)
		if err != nil {
			t.Fatal(err)
		}
		params, err := c.countParams(c.Model)
		if err != nil {
			t.Fatal(err)
		}
		if e.Params != params.All || e.Trained != params.All || e.Weights != 4*e.Params || e.Moments != 8*e.Params ||
			e.Gradients != 4*e.Params*train.SumsOf(c.Train.Shards) || e.Embedding != 40*8 || e.Program <= 0 ||
			e.Total != e.Weights+e.Gradients+e.Moments+e.Activations+e.Program {
			t.Errorf("%s: %+v", k.name, e)
		}
		if e.Measured != (k.name != "large") || e.Measured && e.StepSeconds > 2 {
			t.Errorf("%s: measured %v", k.name, e.Measured)
		}
		steps := c.Train.Steps
		if c.Train.Time > 0 {
			steps = int(math.Ceil(1 / e.StepSeconds))
		}
		rate := float64(c.Train.tokensPerStep()) / e.StepSeconds
		if e.Tokens != steps*c.Train.tokensPerStep() ||
			math.Abs(e.RunSeconds/(float64(steps)*e.StepSeconds)-1) > 1e-9 ||
			math.Abs(e.TokensPerSec/rate-1) > 1e-9 {
			t.Errorf("%s: %+v, want %d updates", k.name, e, steps)
		}
		run, err := c.probes(c.Model)
		if err != nil {
			t.Fatal(err)
		}
		var want int
		switch k.name {
		case "measured", "time":
			c.Tokenizer, c.Train.SamplePrompt = "dna", ""
			c.Data = []string{filepath.Join(folderOf(t, map[string]string{"t": strings.Repeat("ACGT", 99)}), "t")}
			r := newRun(t, c) // memory of its own updates
			for range 2 {
				if _, _, err := r.loop.Step(); err != nil {
					t.Fatal(err)
				}
			}
			want = r.loop.Tape().Bytes()
		case "chunks":
			p, err := run.probe(c.Model, run.layers, 3, 4)
			if want = p.bytes + c.statesBetween(c.Model); err != nil {
				t.Fatal(err)
			}
		default:
			if p, err := run.probe(c.Model, run.layers, 1, 4); err != nil || p.bytes <= 0 {
				t.Errorf("%s: a probe takes %d bytes, %v", k.name, p.bytes, err)
			}
			if want, err = run.activations(); err != nil {
				t.Fatal(err)
			}
		}
		if e.Activations != want {
			t.Errorf("%s: activations of %d bytes, want %d", k.name, e.Activations, want)
		}
		if free, known := status.FreeMemory(); known {
			fits := params.Bytes(c.Train.Shards)+want <= int(free.Bytes)
			if (e.Misfit == "") != fits {
				t.Errorf("%s: misfit %q of %d bytes, where %d are free", k.name, e.Misfit, e.Total, free.Bytes)
			}
		}
	}
	c := roomy(t)
	c.Train.BatchSize, c.Train.SeqLen = 1<<14, 1<<10
	c.Model.MaxPositions = 16
	if _, err := c.Estimate(40); err == nil || !strings.HasPrefix(err.Error(), "train.seq_len: found 1024, but") {
		t.Errorf("longer than the positions: %v", err)
	}
	c.Model.DModel = -1
	if _, err := c.Estimate(40); err == nil {
		t.Error("no shape has an estimate")
	}
	c = roomy(t)
	c.Freeze = []string{"x"}
	if _, err := c.Estimate(40); err == nil {
		t.Error("frozen parts that are none")
	}
}
