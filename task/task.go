// Package task holds the standard tasks for state-space models: data that is generated or read, targets, and published
// results. Package experiment trains models on them.
//
// Each task is a file with a Task and a line in registry.go. Its data is a Set. Examples are tokens or rows of numbers.
// A split returns examples in any order. For the same options, they are the same on every machine.
package task

import (
	"context"
	"encoding/json"
	"strings"
)

// Task is an experiment.
type Task struct {
	Name   string // name in commands
	Group  string // one of Groups
	About  string // one line: the input and the question
	Source string // paper and section, or the origin of the data
	Files  string // files that Open reads, and their sources; "" if the data is generated
	// Options returns a pointer to the struct of the options that an entry such as induction(length=40) can set, filled
	// with the defaults. It returns nil if there are none.
	Options func() any
	// Open generates the data or reads it from files under dir. options is the result of Options with the values set.
	Open func(ctx context.Context, dir string, options any) (*Set, error)
}

// Groups lists the kinds of tasks in the order of tables.
var Groups = []string{"synthetic", "long range arena", "classification", "streams", "forecasting"}

// Set is the data of a task.
type Set struct {
	// The input: tokens below Vocab, or rows of Channels numbers. One of the two is 0.
	Vocab, Channels int
	// Steps reports that the last channel is the time since the previous position: see model.NetworkConfig.
	Steps bool
	// The output for a position or a sequence: scores of Outputs classes, or Outputs numbers if Numbers is true.
	Outputs int
	Numbers bool
	// Levels, between 0 and 1, is set if the model learns quantiles of each number. Outputs is then the number of
	// target numbers times the number of levels. All quantiles of a number are adjacent.
	Levels []float32
	// Everywhere reports that there is an output for each position, and not one for the whole sequence.
	Everywhere bool
	// Pairs reports that an example is two sequences with one class.
	Pairs bool
	// MaxLength is the length of the longest sequence in all splits except Extra.
	MaxLength int

	// Inputs describes the input channels, Results the output numbers, and Classes holds the names of the classes. They
	// are needed to use a trained network on new data. Each may be nil.
	Inputs, Results []Channel
	Classes         []string
	// Weights holds the weights of the classes in the loss; nil if all are equal.
	Weights []float32
	// About is saved with a trained network. It holds whatever else is needed to use it on new data, in a format that
	// the author of the set chooses.
	About json.RawMessage

	Train, Valid, Test Split // Valid may be nil
	// Published is the published result for exactly these options, for recipes without their own: accuracy in percent,
	// or mean squared error; 0 if there is none.
	Published float64
	Where     string
	// Coded names the target, such as sample, if a network is scored by the bits per target and not by its accuracy.
	Coded string
	// Simple holds the scores of simple methods on Test.
	Simple []Simple
	// Forecast describes the numbers if the outputs at the end are the future of the inputs. Otherwise it is nil.
	Forecast *Forecast
	// Extra holds further measurements of the trained model, such as at another length.
	Extra []Extra
	// Tags holds the names of groups of targets that are also scored separately.
	Tags []string
	// Notes holds messages that are shown to the user before training.
	Notes []string
}

// Asked returns the number of numbers that are predicted at a position, or for a sequence.
func (s *Set) Asked() int { return s.Outputs / max(1, len(s.Levels)) }

// Forecast describes the series of a forecasting task, whose first input channels are the past of its outputs.
type Forecast struct {
	Series []string // the name of each output
	Unit   string   // unit of the numbers
	Step   string   // unit of the time steps, such as hours
}

// Simple is the score of a simple method.
type Simple struct {
	Name     string  `json:"name"`
	Loss     float64 `json:"loss"`               // in nats, or the squared error
	Accuracy float64 `json:"accuracy,omitempty"` // in percent, for classes
}

// Extra is a further measurement.
type Extra struct {
	Name      string
	Split     Split
	DtScale   float64 // factor for every dt of the model; 0 means 1
	Published float64 // as in Set, for the recipe Model and its official form, or for any
	Model     string
}

// PublishedOf returns the published result for a recipe, or 0 if there is none.
func (x *Extra) PublishedOf(recipe string) float64 {
	if x.Model != "" && strings.TrimSuffix(recipe, "-official") != x.Model {
		return 0
	}
	return x.Published
}

// Split is a list of examples. Several goroutines may read it at the same time.
type Split interface {
	Len() int
	// Example fills ex with example i. It reuses the memory of ex.
	Example(i int, ex *Example)
}

// Part returns the n examples of a split that start at example lo.
func Part(s Split, lo, n int) Split { return partOf{s, lo, n} }

type partOf struct {
	Split
	lo, n int
}

// Len returns the number of examples.
func (p partOf) Len() int { return p.n }

// Example fills ex with example i of the part.
func (p partOf) Example(i int, ex *Example) { p.Split.Example(p.lo+i, ex) }

// Lengths is a Split that knows the lengths of its examples without creating them. Batches then hold examples of
// similar length.
type Lengths interface {
	Split
	// Length returns the number of positions of example i, or of the longer sequence of a pair.
	Length(i int) int
}

// longest returns the length of the longest example.
func longest(s Lengths) (n int) {
	for i := range s.Len() {
		n = max(n, s.Length(i))
	}
	return n
}

// Ignore is the target of a position that has none.
const Ignore int32 = -1

// Example is a sequence with its targets.
type Example struct {
	Tokens  []int32   // (l), if the Set has a Vocab
	Second  []int32   // the other sequence, if the Set has Pairs
	Values  []float32 // (l, Channels), if the Set has Channels
	Targets []int32   // classes: one per position, Ignore for none, or a single one for the sequence
	Numbers []float32 // (n, Asked()): targets of the last n positions, or with n = 1 of the sequence; NaN for none
	Tags    []int32   // the index into Set.Tags of each target, Ignore for none; may be empty
}

// Reset empties ex and keeps its memory.
func (ex *Example) Reset() {
	ex.Tokens, ex.Second, ex.Values = ex.Tokens[:0], ex.Second[:0], ex.Values[:0]
	ex.Targets, ex.Numbers, ex.Tags = ex.Targets[:0], ex.Numbers[:0], ex.Tags[:0]
}

// Examples is a Split of examples that are all in memory. They must not be changed.
type Examples []Example

// Len returns the number of examples.
func (e Examples) Len() int { return len(e) }

// Example copies example i to ex.
func (e Examples) Example(i int, ex *Example) {
	ex.Reset()
	from := &e[i]
	ex.Tokens = append(ex.Tokens, from.Tokens...)
	ex.Second = append(ex.Second, from.Second...)
	ex.Values = append(ex.Values, from.Values...)
	ex.Targets = append(ex.Targets, from.Targets...)
	ex.Numbers = append(ex.Numbers, from.Numbers...)
	ex.Tags = append(ex.Tags, from.Tags...)
}
