package train

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// Estimate is what a run will need. Activations and time are measured: by real updates of the run where those take seconds,
// otherwise by updates of the same width but fewer layers and tokens, from which the rest follows in proportion.
type Estimate struct {
	Params       int     `json:"params"`
	Embedding    int     `json:"embedding_params"`
	Weights      int     `json:"weight_bytes"`     // and the same again for the gradients
	Moments      int     `json:"moment_bytes"`     // of AdamW
	Activations  int     `json:"activation_bytes"` // of one micro-batch, with their gradients
	Total        int     `json:"total_bytes"`
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
	shape := c.Model
	if shape.VocabSize == 0 {
		shape.VocabSize = vocab
	}
	plan, err := shape.Plan()
	if err != nil {
		return Estimate{}, err
	}
	e := Estimate{Tokens: c.Train.Steps * c.Train.tokensPerStep(), Embedding: shape.PaddedVocab() * shape.DModel}
	if e.Params, err = shape.CountParams(); err != nil {
		return e, err
	}
	e.Weights, e.Moments = 4*e.Params, 8*e.Params
	micro := c.Train.BatchSize * c.Train.SeqLen
	var seconds float64 // of a micro-batch
	if 6*float64(e.Params)*float64(micro) <= estimateFlops {
		p, err := c.probe(shape, plan, c.Train.BatchSize, c.Train.SeqLen)
		if err != nil {
			return e, err
		}
		e.Activations, seconds, e.Measured = p.bytes, p.seconds, true
	} else {
		p, err := c.extrapolate(shape, plan)
		if err != nil {
			return e, err
		}
		e.Activations, seconds = p.bytes, p.seconds
	}
	e.Total = 2*e.Weights + e.Moments + e.Activations
	e.StepSeconds = seconds * float64(c.Train.Accumulation)
	e.RunSeconds = float64(c.Train.Steps) * e.StepSeconds
	e.TokensPerSec = float64(micro) / seconds
	return e, nil
}

// probed is what one update needs: activations and time.
type probed struct {
	bytes   int
	seconds float64
}

// extrapolate measures models of one and of two layers of every kind on a short sequence and scales the difference up.
func (c *Config) extrapolate(shape model.Config, plan []string) (probed, error) {
	kinds := slices.Compact(slices.Sorted(slices.Values(plan)))
	l := min(32, c.Train.SeqLen)
	base, err := c.probe(shape, kinds, 1, l)
	if err != nil {
		return probed{}, err
	}
	sum := base
	for i, kind := range kinds {
		more, err := c.probe(shape, slices.Insert(slices.Clone(kinds), i, kind), 1, l)
		if err != nil {
			return probed{}, err
		}
		extra := -1
		for _, k := range plan {
			if k == kind {
				extra++
			}
		}
		sum.bytes += extra * (more.bytes - base.bytes)
		sum.seconds += float64(extra) * max(0, more.seconds-base.seconds)
	}
	times := float64(c.Train.BatchSize*c.Train.SeqLen) / float64(l)
	return probed{int(float64(sum.bytes) * times), sum.seconds * times}, nil
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
	m.Params("", func(_ string, p *nn.Param) { p.SetGrad(make([]float32, p.Len())) })
	t := autograd.NewTape()
	var p probed
	for range 2 {
		start := time.Now()
		t.Reset()
		t.Record(true)
		t.Train(rng)
		t.Backward(m.Loss(t, m.Forward(t, ids[:batch*l], batch, l, nil), ids[1:batch*l+1]))
		p = probed{bytes: t.Arena().Bytes(), seconds: time.Since(start).Seconds()}
	}
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
	return fmt.Sprintf(`parameters   %d, of them %d in the embedding
memory       %s: weights and gradients %s, AdamW %s, activations %s
speed        %.0f tokens/s, %.3g s a step (%s on this machine)
run          %d tokens in %s, without evaluations
`, e.Params, e.Embedding, gib(e.Total), gib(2*e.Weights), gib(e.Moments), gib(e.Activations), e.TokensPerSec, e.StepSeconds, how,
		e.Tokens, longTime(e.RunSeconds))
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
