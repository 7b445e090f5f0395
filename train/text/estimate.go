package text

import (
	"fmt"
	"math"
	"time"

	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/train"
)

// Estimate is the memory and time that a run will need. Activations and time are measured: by real updates of the run
// if these take seconds, otherwise by updates of a model of the same width with fewer layers and tokens, whose results
// are scaled up.
type Estimate struct {
	Params       int     `json:"params"`
	Trained      int     `json:"trained_params"` // the other parameters are frozen
	Embedding    int     `json:"embedding_params"`
	Weights      int     `json:"weight_bytes"`
	Gradients    int     `json:"gradient_bytes"`   // for each trained weight, as many as the sum over shards needs
	Moments      int     `json:"moment_bytes"`     // of AdamW
	Activations  int     `json:"activation_bytes"` // of one shard, including their gradients
	Program      int     `json:"program_bytes"`    // the program, its text and scratch memory of its cores
	Total        int     `json:"total_bytes"`
	Misfit       string  `json:"misfit,omitempty"` // the error that Run returns if there is too little memory
	TokensPerSec float64 `json:"tokens_per_s"`
	StepSeconds  float64 `json:"step_s"`
	RunSeconds   float64 `json:"run_s"` // without evaluations
	Tokens       int     `json:"tokens"`
	Measured     bool    `json:"measured"`                      // measured by updates of the run itself
	PerByte      float64 `json:"exchange_s_per_byte,omitempty"` // seconds of all cores per byte sent
}

// estimateFlops limits the work of a measurement to some seconds with portable kernels.
const estimateFlops = 60e9

// Estimate measures what a run of this configuration needs. vocab is the size of the tokenizer's vocabulary.
func (c *Config) Estimate(vocab int) (Estimate, error) {
	shape := c.shape(vocab)
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
	params, err := c.countParams(shape)
	if err != nil {
		return e, err
	}
	run, err := c.probes(shape)
	if err != nil {
		return e, err
	}
	e.Params, e.Trained = params.All, params.Trained
	e.Weights, e.Gradients, e.Moments = params.Values, 4*e.Trained*train.SumsOf(c.Train.Shards), 8*e.Trained+params.More
	held := c.Train.held()
	micro := c.Train.BatchSize * held
	measure := run.extrapolate
	if e.Measured = 6*float64(e.Params)*float64(micro) <= estimateFlops; e.Measured {
		measure = func() (probed, error) { return run.time(shape, run.layers, c.Train.BatchSize, held) }
	}
	p, err := measure() // for one shard
	if err != nil {
		return e, err
	}
	e.Activations, e.Program = p.bytes, program+p.scratch
	if c.Train.Recompute {
		if e.Activations, err = run.activations(); err != nil {
			return e, err
		}
	}
	seconds := p.seconds * c.Train.chunkTimes()
	e.Activations += c.statesBetween(shape)
	e.Total = e.Weights + e.Gradients + e.Moments + e.Activations + e.Program
	if known {
		if err := c.fitsIn(free, params, e.Activations); err != nil {
			e.Misfit = err.Error()
		}
	}
	e.StepSeconds = seconds * float64(c.Train.Shards)
	steps := c.Train.Steps
	if c.Train.Time > 0 {
		steps = int(math.Ceil(c.Train.Time.Seconds() / e.StepSeconds))
	}
	e.Tokens, e.RunSeconds = steps*c.Train.tokensPerStep(), float64(steps)*e.StepSeconds
	e.TokensPerSec = float64(c.Train.BatchSize*c.Train.SeqLen) / seconds
	return e, nil
}

// String formats the estimate as text of several lines.
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
	tooLong := ""
	if e.RunSeconds > monthSeconds {
		tooLong = "             settings for a larger machine: --train.steps or --train.time 8h shortens it\n"
	}
	trained := ""
	if e.Trained < e.Params {
		trained = fmt.Sprintf("; %d are trained, %d frozen", e.Trained, e.Params-e.Trained)
	}
	return fmt.Sprintf(`parameters   %d, of them %d in the embedding%s
memory       %s: weights and gradients %s, AdamW %s, activations %s, program %s
speed        %.0f tokens/s, %.3g s a step (%s on this machine)
run          %s tokens in %s, without evaluations
`, e.Params, e.Embedding, trained,
		gib(e.Total), gib(e.Weights+e.Gradients), gib(e.Moments), gib(e.Activations), gib(e.Program),
		e.TokensPerSec, e.StepSeconds, how,
		status.Count(e.Tokens), longTime(e.RunSeconds)) + tooLong + fits
}

// monthSeconds is the run time above which String suggests shortening the run.
const monthSeconds = 30 * 24 * 3600

// longTime formats a time that may be days or years.
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
