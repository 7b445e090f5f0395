package train

import "time"

// Events are functions that a run calls, in the goroutine of the run, as things happen. Any may be nil.
type Events struct {
	Start  func(Start)
	Step   func(Progress)
	Eval   func(Progress)
	Sample func(step int, text string)
	Saved  func(dir string, step int)
	Note   func(text string)
}

// Start describes a run before its first step.
type Start struct {
	Out         string
	Params      int
	Trained     int    // of the parameters: the others are frozen
	Base        string // the model whose weights it began with, "" for none
	Tokenizer   string
	Vocab       int
	DataName    string
	TrainTokens int
	ValidTokens int
	Steps       int // 0 where a budget of time decides
	Resumed     int // the step that the run continues from, 0 for a new one
}

// Progress is where a run is and how it goes.
type Progress struct {
	Step, Steps  int     // with a budget of time, Steps is an estimate
	Epoch        float64 // passes over the training examples
	Loss         float64 // of this step, nats per token
	MeanLoss     float64 // of the steps since the last measurement
	Valid        Score   // the last measured
	ValidLoss    float64 // its loss, NaN before the first
	Best         bool    // ValidLoss is the lowest so far (in Eval)
	Guess        float64 // the loss of a model that knows nothing
	TokensPerSec float64 // or examples, of labelled sequences
	GradNorm     float64
	LR           float64
	Elapsed, ETA time.Duration
	MemBytes     uint64
}
