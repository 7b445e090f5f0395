package train

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Estimate is what a run will need. Activations and time are measured: by real updates of the run where those take
// seconds, otherwise by updates of the same width but fewer layers and tokens, from which the rest follows in
// proportion.
type Estimate struct {
	Params       int     `json:"params"`
	Embedding    int     `json:"embedding_params"`
	Weights      int     `json:"weight_bytes"`
	Gradients    int     `json:"gradient_bytes"`   // as many times the weights as the sum over shards needs
	Moments      int     `json:"moment_bytes"`     // of AdamW
	Activations  int     `json:"activation_bytes"` // of one shard, with their gradients
	Program      int     `json:"program_bytes"`    // the program itself, its text and the scratch of its cores
	Total        int     `json:"total_bytes"`
	Misfit       string  `json:"misfit,omitempty"` // the error of Run if there is too little memory
	TokensPerSec float64 `json:"tokens_per_s"`
	StepSeconds  float64 `json:"step_s"`
	RunSeconds   float64 `json:"run_s"` // without evaluations
	Tokens       int     `json:"tokens"`
	Measured     bool    `json:"measured"` // by updates of the run itself
}

// estimateFlops bounds the work of a measurement: some seconds with portable kernels.
const estimateFlops = 60e9

// Estimate measures what a run of this configuration needs. vocab is the size of the tokenizer's vocabulary.
func (c *Config) Estimate(vocab int) (Estimate, error) {
	shape := c.shape(vocab)
	plan, err := shape.Plan()
	if err != nil {
		return Estimate{}, err
	}
	free, known := status.FreeMemory()
	program := int(status.RSS())
	e := Estimate{Embedding: shape.PaddedVocab() * shape.DModel}
	m, err := model.New(shape)
	if err != nil {
		return e, err
	}
	if err := fits(m, c.Train.SeqLen, c.Train.CarryState); err != nil {
		return e, fmt.Errorf("train.seq_len: %w", err)
	}
	e.Params = m.NumParams()
	e.Weights, e.Gradients, e.Moments = 4*e.Params, 4*e.Params*sumsOf(c.Train.Shards), 8*e.Params
	micro := c.Train.BatchSize * c.Train.SeqLen
	var seconds float64 // of a shard
	if 6*float64(e.Params)*float64(micro) <= estimateFlops {
		p, err := c.probe(shape, plan, c.Train.BatchSize, c.Train.SeqLen)
		if err != nil {
			return e, err
		}
		e.Activations, e.Program, seconds, e.Measured = p.bytes, program+p.scratch, p.seconds, true
	} else {
		p, err := c.extrapolate(shape, plan)
		if err != nil {
			return e, err
		}
		e.Activations, e.Program, seconds = p.bytes, program+p.scratch, p.seconds
	}
	e.Total = e.Weights + e.Gradients + e.Moments + e.Activations + e.Program
	if known {
		if err := c.fitsIn(free, e.Params, e.Activations); err != nil {
			e.Misfit = err.Error()
		}
	}
	e.StepSeconds = seconds * float64(c.Train.Shards)
	steps := c.Train.Steps
	if c.Train.Time > 0 {
		steps = int(math.Ceil(c.Train.Time.Seconds() / e.StepSeconds))
	}
	e.Tokens, e.RunSeconds = steps*c.Train.tokensPerStep(), float64(steps)*e.StepSeconds
	e.TokensPerSec = float64(micro) / seconds
	return e, nil
}

// probed is what one update needs: activations, the scratch of the cores, time.
type probed struct {
	bytes, scratch int
	seconds        float64
}

// extrapolate measures small models of the same width: time from one short sequence, memory by extrapolateBytes.
func (c *Config) extrapolate(shape model.Config, plan []string) (probed, error) {
	bytes, err := c.activations(shape, plan)
	if err != nil {
		return probed{}, err
	}
	shape, _, larger, err := narrowed(shape, plan)
	if err != nil {
		return probed{}, err
	}
	l := min(32, c.Train.SeqLen)
	scratch := 0
	seconds, err := addLayers(plan, func(layers []string) (float64, error) {
		p, err := c.probe(shape, layers, 1, l)
		scratch = max(scratch, p.scratch)
		return p.seconds, err
	})
	return probed{bytes, scratch, seconds * larger * float64(c.Train.BatchSize*c.Train.SeqLen) / float64(l)}, err
}

// extrapolateBytes finds the activations of one shard. They are a sum of parts that are constant, that grow with the
// length alone (convolution kernels), and with the positions of all rows: three small steps tell them apart. What the
// loss keeps is counted separately, so that the probes need only a tiny vocabulary.
func (c *Config) extrapolateBytes(shape model.Config, plan []string) (int, error) {
	batch := c.Train.BatchSize
	loss := func(rows int, of model.Config) float64 {
		return 4 * float64(autograd.LossMemory(rows, of.DModel, of.PaddedVocab()))
	}
	small := shape
	small.VocabSize = 64
	// Short sequences are convolved in another way than long ones, which takes memory: a probe is long if that is
	// affordable.
	small.Layers = strings.Join(slices.Compact(slices.Sorted(slices.Values(plan))), ",")
	params, err := small.CountParams()
	if err != nil {
		return 0, err
	}
	l, more := min(32, c.Train.SeqLen), 32
	if 6*float64(params)*512 < estimateFlops {
		l = min(128, c.Train.SeqLen)
	}
	total, err := addLayers(plan, func(layers []string) (float64, error) {
		var at [3]float64
		for i, size := range [3]struct{ b, l int }{{1, l}, {1, l + more}, {2, l}} {
			p, err := c.probe(small, layers, size.b, size.l)
			if err != nil {
				return 0, err
			}
			at[i] = float64(p.bytes) - loss(size.b*size.l, small)
		}
		each := (at[2] - at[0]) / float64(l)          // for each token
		kernels := (at[1]-at[0])/float64(more) - each // for each position, however many rows there are
		constant := at[0] - (each+kernels)*float64(l)
		return constant + (kernels+each*float64(batch))*float64(c.Train.SeqLen), nil
	})
	return int(total + loss(batch*c.Train.SeqLen, shape)), err
}

// addLayers finds what f gives for all layers of plan, if it is a sum over them and something for all together, from
// one layer of each kind and from one more of each.
func addLayers(plan []string, f func(layers []string) (float64, error)) (float64, error) {
	kinds := slices.Compact(slices.Sorted(slices.Values(plan)))
	base, err := f(kinds)
	if err != nil {
		return 0, err
	}
	sum := base
	for i, kind := range kinds {
		extra := -1
		for _, k := range plan {
			if k == kind {
				extra++
			}
		}
		if extra == 0 {
			continue
		}
		more, err := f(slices.Insert(slices.Clone(kinds), i, kind))
		if err != nil {
			return 0, err
		}
		sum += float64(extra) * max(0, more-base)
	}
	return sum, nil
}

// probe runs two updates of a model with these layers on random tokens, and measures the second.
func (c *Config) probe(shape model.Config, layers []string, batch, l int) (probed, error) {
	shape.Layers = strings.Join(layers, ",")
	rng := rand.New(rand.NewPCG(1, 2))
	ids := make([]int32, batch*l+1)
	for i := range ids {
		ids[i] = rng.Int32N(int32(shape.VocabSize))
	}
	m, err := model.New(shape)
	if err != nil {
		return probed{}, err
	}
	m.Init(1)
	var leaves []*tensor.Tensor
	m.Params("", func(_ string, p *nn.Param) { leaves = append(leaves, p.Tensor) })
	precision, err := engine.ParsePrecision(c.Precision)
	if err != nil {
		return probed{}, err
	}
	t := autograd.NewTape()
	t.Collect(autograd.NewGradients(leaves...))
	t.SetPrecision(precision)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var p probed
	for range 2 {
		start := time.Now()
		t.Reset()
		t.Record(true)
		rows := model.EqualRows(batch, l)
		rows.Train(engine.RowSeeds(1, 0, 0, batch)...)
		t.Backward(m.Loss(t, m.Forward(t, ids[:batch*l], rows), ids[1:batch*l+1]))
		p = probed{bytes: t.Bytes(), seconds: time.Since(start).Seconds()}
	}
	runtime.ReadMemStats(&after)
	p.scratch = max(0, int(after.HeapInuse)-int(before.HeapInuse)-p.bytes)
	runtime.GC() // what a large probe held is needed by the next
	return p, nil
}

// String is the estimate as text of several lines.
func (e Estimate) String() string {
	how := "extrapolated from updates of a smaller model"
	if e.Measured {
		how = "measured"
	}
	gib := func(n int) string { return fmt.Sprintf("%.3g GiB", float64(n)/(1<<30)) }
	if e.Total < 1<<30 {
		gib = func(n int) string { return fmt.Sprintf("%.3g MiB", float64(n)/(1<<20)) }
	}
	fits := ""
	if e.Misfit != "" {
		fits = "does not fit " + e.Misfit + "\n"
	}
	return fmt.Sprintf(`parameters   %d, of them %d in the embedding
memory       %s: weights and gradients %s, AdamW %s, activations %s, program %s
speed        %.0f tokens/s, %.3g s a step (%s on this machine)
run          %d tokens in %s, without evaluations
`, e.Params, e.Embedding,
		gib(e.Total), gib(e.Weights+e.Gradients), gib(e.Moments), gib(e.Activations), gib(e.Program),
		e.TokensPerSec, e.StepSeconds, how,
		e.Tokens, longTime(e.RunSeconds)) + fits
}

// longTime is a time that may be years.
func longTime(seconds float64) string {
	const day = 24 * 3600
	switch {
	case seconds < 2*day:
		return status.Duration(time.Duration(seconds * float64(time.Second)))
	case seconds < 1000*day:
		return fmt.Sprintf("%.1f days", seconds/day)
	}
	return fmt.Sprintf("%.0f years", seconds/(365.25*day))
}
