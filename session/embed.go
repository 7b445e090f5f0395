package session

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
)

// Pooling selects the hidden states from which the embedding of a text is computed.
type Pooling string

// The poolings. The hidden states are those after the final norm.
const (
	PoolMean Pooling = "mean" // mean over all ids
	PoolLast Pooling = "last" // hidden state of the last id
)

// ParsePooling returns the pooling with a name; "" means PoolMean.
func ParsePooling(name string) (Pooling, error) {
	switch p := Pooling(name); p {
	case "":
		return PoolMean, nil
	case PoolMean, PoolLast:
		return p, nil
	}
	return "", fmt.Errorf("pooling: found %q, want %s or %s", name, PoolMean, PoolLast)
}

// EmbedOptions configure embeddings.
type EmbedOptions struct {
	Runner     Runner  // nil: Direct
	Pooling    Pooling // empty: PoolMean
	Dimensions int     // number of values of the hidden state that a vector keeps; 0: all
	Client     string  // see Request
	Priority   int
}

// settle sets the defaults and checks the options.
func (o *EmbedOptions) settle(m *model.Model) (err error) {
	if o.Pooling, err = ParsePooling(string(o.Pooling)); err != nil {
		return err
	}
	if o.Runner == nil {
		o.Runner = Direct{}
	}
	if d := m.Config.DModel; o.Dimensions < 0 || o.Dimensions > d {
		return fmt.Errorf("dimensions: found %d, want 1 to %d, the size of the model's hidden states", o.Dimensions, d)
	}
	return nil
}

// Embed returns a vector of length 1 for each text. It pools the hidden states after the final norm, takes the first
// Dimensions values and divides them by their length. The bits depend only on the text, the model and the options.
// Texts are read in pieces, so a long text takes no more memory than a short one, except for the keys and values of
// attention layers.
func Embed(ctx context.Context, m *model.Model, o EmbedOptions, texts ...[]int32) ([][]float32, error) {
	if err := o.settle(m); err != nil {
		return nil, err
	}
	for i, ids := range texts {
		if err := generate.NewBatch(m, 1).Check(ids); err != nil {
			return nil, fmt.Errorf("text %d: %w", i, err)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out, places := make([][]float32, len(texts)), make(chan struct{}, sideBySide)
	var all sync.WaitGroup
	for i, ids := range texts {
		if places <- struct{}{}; ctx.Err() != nil {
			break
		}
		all.Go(func() {
			defer func() { <-places }()
			var err error
			if out[i], err = embed(ctx, m, o, ids); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return out, nil
}

// EmbedTokens calls visit with the index of each id of a text, from 0, and a vector of length 1: the first Dimensions
// values of its hidden state after the final norm, divided by their length. There is no pooling. visit may keep the
// vector. If visit returns an error, EmbedTokens stops and returns it.
func EmbedTokens(ctx context.Context, m *model.Model, o EmbedOptions, ids []int32,
	visit func(at int, vector []float32) error) error {
	if err := o.settle(m); err != nil {
		return err
	}
	if err := generate.NewBatch(m, 1).Check(ids); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	x := make([]float64, m.Config.DModel)
	err := o.hidden(ctx, m, ids, func(at int, hidden []float32) {
		if ctx.Err() != nil {
			return
		}
		for i, v := range hidden {
			x[i] = float64(v)
		}
		v, err := unit(o.cut(x))
		if err == nil {
			err = visit(at, v)
		}
		if err != nil {
			cancel(err)
		}
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// cut returns the first Dimensions values of a vector.
func (o *EmbedOptions) cut(x []float64) []float64 {
	if o.Dimensions > 0 {
		return x[:o.Dimensions]
	}
	return x
}

// embed embeds one text.
func embed(ctx context.Context, m *model.Model, o EmbedOptions, ids []int32) ([]float32, error) {
	sum := make([]float64, m.Config.DModel)
	err := o.hidden(ctx, m, ids, func(at int, hidden []float32) {
		if o.Pooling == PoolLast && at < len(ids)-1 {
			return
		}
		for i, x := range hidden {
			sum[i] += float64(x)
		}
	})
	if err != nil {
		return nil, err
	}
	return unit(o.cut(sum))
}

// hidden calls visit with the hidden state of each id of a text. It returns a panic of the model as an error, because
// it may run in a goroutine of its own, where a panic would end the process.
func (o *EmbedOptions) hidden(ctx context.Context, m *model.Model, ids []int32,
	visit func(at int, hidden []float32)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	s := generate.NewBatch(m, 1)
	s.Chunk = Chunk(m)
	return o.Runner.Run(ctx, &Request{
		Session: s, Segments: []Segment{{IDs: ids}}, Client: o.Client, Priority: o.Priority, Hidden: visit,
	})
}

// errNoNumbers reports that the model's hidden states are infinite or NaN.
var errNoNumbers = errors.New("the model's hidden states are not finite")

// unit divides a vector by its length, so the result is the same for a sum and for a mean. Zero stays zero.
func unit(x []float64) ([]float32, error) {
	square := 0.0
	for _, v := range x {
		square += float64(v * v)
	}
	out := make([]float32, len(x))
	switch length := math.Sqrt(square); {
	case math.IsNaN(length) || math.IsInf(length, 0):
		return nil, errNoNumbers
	case length > 0:
		for i, v := range x {
			out[i] = float32(v / length)
		}
	}
	return out, nil
}
