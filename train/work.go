package train

import (
	"context"
	"time"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Work is the part that differs between runs: the model, its data, the loss and the score. Training does the rest.
type Work interface {
	nn.Module
	// NewTape returns a tape on the model's engine.
	NewTape() *autograd.Tape

	// Read reads the examples of the next update and returns their number. step counts from 0. After an error the work
	// is unchanged.
	Read(step int) (examples int, err error)
	// Loss records a forward pass over a shard of the examples that were read. The loss is the mean over count targets.
	Loss(t *autograd.Tape, s Shard) (loss *tensor.Tensor, count int, err error)
	// Went is called when a shard's gradient has been computed, before the tape is reset.
	Went(s Shard)

	// Try returns the loss on a few examples that the model is not trained on, to check that its weights are usable.
	Try(ctx context.Context, t *autograd.Tape) (float64, error)
	// Measure scores the model during the run or, if last is true, as at the end.
	Measure(ctx context.Context, t *autograd.Tape, last bool) (Score, error)
	// Remeasure scores the best checkpoint, in dir, as Measure does at the end. score is the one measured during the
	// run.
	Remeasure(ctx context.Context, t *autograd.Tape, dir string, score Score) (Score, error)
	// Enough reports whether a score is good enough to end the run.
	Enough(s Score) bool
	// Guess returns the loss of a model that guesses, or +Inf if there is nothing to compare with.
	Guess() float64

	// SaveModel writes the files that are needed to use the model into a folder.
	SaveModel(dir string) error
	// Place returns the work's place in its data and all else that the next update depends on. It may write files to
	// dir.
	Place(dir string) (place any, err error)
	// Return goes back to a place, given the result of Place as JSON and its files in dir.
	Return(place []byte, dir string) error
}

// LongWork is a Work that can process a shard in chunks if its activations would take too much memory at once.
type LongWork interface {
	// Long reports whether shards are processed in chunks.
	Long() bool
	// Through adds the gradient of a shard, times the weight that weigh returns for its number of targets, and returns
	// the mean loss. It calls check with each loss on the way; an error of check ends the shard.
	Through(t *autograd.Tape, s Shard, weigh func(targets int) float64, check func(loss float64) error) (mean float64,
		targets int, err error)
}

// Shard is a part of the examples of an update: those from First up to, but not including, End.
type Shard struct {
	Step       int // number of earlier updates
	Index      int
	First, End int
}

// Plan holds the settings of a Training.
type Plan struct {
	Kind      string // of the work; a checkpoint of one kind cannot be used for another
	Config    any    // pointer to all settings of the run, which are saved with every checkpoint
	Out       string // folder of the run
	Seed      uint64 // of dropout
	Precision string // of the operands of matrix products in updates; measurements use float32
	Shards    int    // parts of an update
	Islands   Islands
	Split     bool // two of several machines keep each part of the moments; not with islands
	Optim     Optim

	Steps     int           // updates, and the length of the learning-rate schedule
	Time      time.Duration // of training; 0 for no limit
	Clock     string        // measures Time
	TimeAlone bool          // with a time limit, Steps does not end the run

	Rate func(step int) float64 // factor of the learning rate, replaces the schedule if not nil

	StepsPerEpoch float64
	UnitsPerStep  float64 // tokens, for reporting speed
	Examples      bool    // UnitsPerStep counts examples, not tokens

	EvalEvery, LogEvery int // steps
	SaveEvery           int // steps; 0 saves by time
	KeepBest            bool
	Patience            int     // measurements in a row no better than the best that end the run; 0 for no limit
	EMA                 float64 // decay of the average of weights that is measured and kept, 0 for none
	MeasureFirst        bool    // also before the first update, of a model that is already trained
	// Sample draws a sample text, every SampleEvery updates and after the last. If SampleEvery is 0 it is not called.
	Sample      func(ctx context.Context) (string, error)
	SampleEvery int
}

// Score is the quality of a model on examples.
type Score struct {
	Loss     float64 `json:"loss"` // cross-entropy in nats, or the mean squared error
	Accuracy float64 `json:"accuracy,omitempty"`
	MAE      float64 `json:"mae,omitempty"` // mean absolute error, if targets are numbers
	Count    int     `json:"count"`         // targets
	// Tags holds the accuracies of the groups of targets that the task names.
	Tags []TagScore `json:"tags,omitempty"`
}

// TagScore is the accuracy, in percent, of a group of targets.
type TagScore struct {
	Name     string  `json:"name"`
	Accuracy float64 `json:"accuracy"`
	Count    int     `json:"count"`
}

// Better reports whether s is better than other: it has a higher accuracy or, if that is equal, a lower loss.
func (s Score) Better(other Score) bool {
	if s.Accuracy != other.Accuracy {
		return s.Accuracy > other.Accuracy
	}
	return s.Loss < other.Loss
}

// Point is a measurement during the run.
type Point struct {
	Step      int     `json:"step"`
	Epoch     float64 `json:"epoch"`
	Seconds   float64 `json:"seconds"` // of training
	LR        float64 `json:"lr"`
	TrainLoss float64 `json:"train_loss"` // mean since the last point
	Valid     Score   `json:"valid"`
}

// ForUpdates sets a tape up for updates.
func ForUpdates(t *autograd.Tape, p engine.Precision) {
	t.Record(true)
	t.TakeAside(true)
	t.SetPrecision(p)
}

// ForMeasuring sets a tape up for scores.
func ForMeasuring(t *autograd.Tape) {
	t.Record(false)
	t.SetPrecision(engine.Float32)
}
