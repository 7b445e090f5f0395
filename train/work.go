package train

import (
	"context"
	"time"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Work is what differs between runs: the model, its data, the loss and the score. All else is Training's.
type Work interface {
	nn.Module
	// NewTape returns a tape on the engine of the model.
	NewTape() *autograd.Tape

	// Read reads the examples of the next update and returns their number. step counts from 0. After an error nothing
	// has changed.
	Read(step int) (examples int, err error)
	// Loss records a forward pass over a shard of what was read. The loss is the mean over count targets.
	Loss(t *autograd.Tape, s Shard) (loss *tensor.Tensor, count int, err error)
	// Went is called when a shard's gradient is computed, before the tape is reset.
	Went(s Shard)

	// Try is the loss on a few examples that the model is not trained on: a check that its weights are usable.
	Try(ctx context.Context, t *autograd.Tape) (float64, error)
	// Measure scores the model during the run or, if last is true, as it will be in the end.
	Measure(ctx context.Context, t *autograd.Tape, last bool) (Score, error)
	// Remeasure scores the best checkpoint, in dir, as Measure does in the end. The given score was measured on the
	// way.
	Remeasure(ctx context.Context, t *autograd.Tape, dir string, score Score) (Score, error)
	// Enough reports whether a score is all that is asked for.
	Enough(s Score) bool
	// Guess is the loss of a model that knows nothing, +Inf if there is none to compare with.
	Guess() float64

	// SaveModel writes what it takes to use the model into a folder.
	SaveModel(dir string) error
	// Place is where the work is in its data and what else the next update depends on. Files for it go into dir.
	Place(dir string) (place any, err error)
	// Return goes back to a place that Place gave, as JSON, with its files in dir.
	Return(place []byte, dir string) error
}

// LongWork is a Work that can go through a shard in chunks if its activations would take too much memory at once.
type LongWork interface {
	// Long reports whether it does.
	Long() bool
	// Through adds the gradient of a shard, times the weight that weigh returns for the number of its targets, and
	// returns the mean loss. check is given each loss during the run; its error ends the shard.
	Through(t *autograd.Tape, s Shard, weigh func(targets int) float64, check func(loss float64) error) (mean float64,
		targets int, err error)
}

// Shard is a part of the examples of an update: those from First to before End.
type Shard struct {
	Step       int // updates made before
	Index      int
	First, End int
}

// Plan is the settings of a Training.
type Plan struct {
	Kind      string // of the work: the checkpoints of one kind are of no use to another
	Config    any    // a pointer to all settings of the run, which are saved with every checkpoint
	Out       string // folder of the run
	Seed      uint64 // of dropout
	Precision string // of the operands of products in updates; measurements are in float32
	Shards    int    // parts of an update
	Islands   Islands
	Split     bool // of several machines, two keep each part of the moments; not with islands
	Optim     Optim

	Steps     int           // updates, and what the schedule of the learning rate goes over
	Time      time.Duration // of training; 0 for no limit
	Clock     string        // that Time is measured by
	TimeAlone bool          // with a limit of time, Steps does not end the run

	Rate func(step int) float64 // factor of the learning rate, in place of the schedule; nil for none

	StepsPerEpoch float64
	UnitsPerStep  float64 // tokens, by which speed is told
	Examples      bool    // they are examples, not tokens

	EvalEvery, LogEvery int // steps
	SaveEvery           int // steps; 0 leaves it to the pace of saving
	KeepBest            bool
	Patience            int     // measurements in a row that are no better than the best before the run ends; 0 for any
	EMA                 float64 // decay of the average of weights that is measured and kept; 0 for none
	MeasureFirst        bool    // before the first update, too: of a model that has learnt something
	// Sample draws a sample text every SampleEvery updates and after the last; SampleEvery 0 draws none.
	Sample      func(ctx context.Context) (string, error)
	SampleEvery int
}

// Score is how well a model does on examples.
type Score struct {
	Loss     float64 `json:"loss"` // cross-entropy in nats, or the mean squared error
	Accuracy float64 `json:"accuracy,omitempty"`
	MAE      float64 `json:"mae,omitempty"` // mean absolute error, of numbers
	Count    int     `json:"count"`         // targets
	// Tags are the accuracies of the groups of targets that the task names.
	Tags []TagScore `json:"tags,omitempty"`
}

// TagScore is the accuracy, in percent, of a group of targets.
type TagScore struct {
	Name     string  `json:"name"`
	Accuracy float64 `json:"accuracy"`
	Count    int     `json:"count"`
}

// Better reports whether s is better than other: more targets right or, where numbers are predicted, a lower error.
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
