package generate

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/model"
)

// ModelDrafts returns Drafts that guess for a large model the ids that a small model finds most probable. Both models
// must have the same vocabulary. The small model has to read each text, too. A Drafter continues from the states of the
// last texts if it can, so that a conversation is read once.
func ModelDrafts(large, small *model.Model) (Drafts, error) {
	if found, want := small.Config.VocabSize, large.Config.VocabSize; found != want {
		return nil, fmt.Errorf("vocab_size: found %d in the model that drafts, want %d as in the one that verifies",
			found, want)
	}
	d := &modelDrafts{model: small}
	return func() Drafter { return &modelDraft{of: d} }, nil
}

// lastPlaces is the number of texts whose states are kept.
const lastPlaces = 8

// modelDrafts holds a small model and its states after the last texts.
type modelDrafts struct {
	model *model.Model
	mu    sync.Mutex
	last  []*modelDraft // ordered by use, the latest last
}

// modelDraft is the state of the small model after a text.
type modelDraft struct {
	of   *modelDrafts
	mu   sync.Mutex // held while it reads or is forked
	read []int32
	at   *Batch
}

// begin returns a copy of the state from which the fewest ids of a text are left to read.
func (d *modelDrafts) begin(text []int32) (read []int32, at *Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.last {
		if !x.mu.TryLock() {
			continue // it is reading
		}
		if n := len(x.read); n > len(read) && n < len(text) && slices.Equal(x.read, text[:n]) {
			read, at = slices.Clone(x.read), x.at.Fork()
		}
		x.mu.Unlock()
	}
	if at == nil {
		at = NewBatch(d.model, 1)
	}
	return read, at
}

// remember adds x to the last texts.
func (d *modelDrafts) remember(x *modelDraft) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.last); n > 0 && d.last[n-1] == x {
		return
	}
	d.last = append(slices.DeleteFunc(d.last, func(y *modelDraft) bool { return y == x }), x)
	d.last = d.last[max(0, len(d.last)-lastPlaces):]
}

// Draft reads the new ids of the text, and then its own guesses in a copy of the state.
func (x *modelDraft) Draft(ctx context.Context, text []int32, n int) ([]int32, error) {
	if n < 1 || len(text) == 0 {
		return nil, nil
	}
	x.mu.Lock()
	defer x.of.remember(x)
	defer x.mu.Unlock()
	if x.at == nil || len(x.read) >= len(text) || !slices.Equal(x.read, text[:len(x.read)]) {
		x.read, x.at = x.of.begin(text)
	}
	fresh := text[len(x.read):]
	if x.at.Check(fresh) != nil { // the text is too long for the small model
		return nil, nil
	}
	err := x.at.Feed(ctx, fresh)
	x.read = append(x.read, text[len(x.read):x.at.Position()]...)
	if err != nil {
		return nil, err
	}
	var ids []int32
	for at := x.at; ; {
		best, err := sample.Best(at.Logits(0))
		if err != nil { // a broken model has no guess
			return ids, nil
		}
		if ids = append(ids, best); len(ids) == n || at.Check(ids[len(ids)-1:]) != nil {
			return ids, nil
		}
		if at == x.at {
			at = at.Fork()
		}
		if err := at.Feed(ctx, ids[len(ids)-1:]); err != nil {
			return nil, err
		}
	}
}
