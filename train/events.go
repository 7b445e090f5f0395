package train

import "time"

// Events holds the callbacks of a run. They are called in the run's goroutine. Any may be nil.
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
	Trained     int    // number of trained parameters; the others are frozen
	Base        string // the model whose weights the run started from, or ""
	Tokenizer   string
	Vocab       int
	DataName    string
	TrainTokens int
	ValidTokens int
	Steps       int // 0 if a time budget decides
	Resumed     int // the step that the run continues from, or 0 for a new run
}

// Progress describes the state of a run after an update or an evaluation.
type Progress struct {
	Step, Steps  int     // with a time budget, Steps is an estimate
	Epoch        float64 // passes over the training examples
	Loss         float64 // of this step, in nats per token
	MeanLoss     float64 // of the steps since the last measurement
	Valid        Score   // last score on the validation data
	ValidLoss    float64 // loss of Valid, NaN before the first
	Best         bool    // ValidLoss is the lowest so far (in Eval)
	Guess        float64 // loss of a model that guesses
	TokensPerSec float64 // or examples per second, of labelled sequences
	GradNorm     float64
	LR           float64
	Elapsed, ETA time.Duration
	MemBytes     uint64
}
