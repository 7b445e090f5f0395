package generate

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// Part contains the ids that Feed reads in one batch.
type Part struct {
	Batch  *Batch
	IDs    []int32 // (batch, l), row-major: l ids for each of its sequences
	Silent bool    // skip the logits after the last id; the batch then has none
	// Drawn reads IDs one at a time, like sampled ids: the bits are those of one call for each id.
	Drawn bool
	// Drafts is the number of guesses at the end of IDs. At least one id before them is not a guess. With Drafts, Drawn
	// must be set, Batch must have one sequence, and there are at most Room()+1 ids. Afterwards the batch is before the
	// first guess: see Take.
	Drafts int
	// Each, unless it is nil, is called once for every id with its index in IDs and the logits after it. Calls are
	// concurrent and in any order. Computing these logits makes reading slower. They are valid only during the call.
	Each func(at int, logits []float32)
	// Hidden, unless it is nil, is called for every id with its index in IDs and the hidden state after the final norm,
	// d_model values. Calls are not concurrent, and those of one sequence are in order.
	Hidden func(at int, hidden []float32)
}

// Feed is like Batch.Feed for several batches of one model at once, whatever their positions and numbers of ids. A
// server can use it to advance many batches by one token while others read a piece of their prompt. Each batch gets the
// same bits as alone. No batch may occur twice.
//
// In each round of a call, each batch reads one piece (see Batch). A call has as many rounds as the batch with the most
// pieces. So for a low latency no part should have more than one piece.
//
// If ctx is done, Feed returns its error. Each batch is then at the end of a piece, and batches that have read only a
// part of their ids have no logits. After any other error all batches are unchanged.
func Feed(ctx context.Context, parts ...Part) error {
	if len(parts) == 0 {
		return nil
	}
	m := parts[0].Batch.model
	for _, p := range parts {
		if p.Batch.model != m {
			return fmt.Errorf("generate: found batches of different models, want those of one")
		}
		if err := p.check(); err != nil {
			return err
		}
	}
	for _, p := range parts {
		if err := p.Batch.flush(func(int) bool { return true }); err != nil {
			return err
		}
		if p.Batch.ahead.forget(); !p.Drawn || p.Each != nil || p.Hidden != nil {
			p.Batch.settle()
		}
	}
	b := lend()
	defer b.giveBack()
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			b.stop(parts)
			return err
		}
		more = b.round(m, parts)
	}
	return nil
}

// check returns an error unless the part can be read.
func (p *Part) check() error {
	if p.Drafts != 0 && (!p.Drawn || len(p.Batch.states) != 1 || p.Drafts < 0 || p.Drafts >= len(p.IDs) ||
		len(p.IDs) > p.Batch.Room()+1 || p.Silent || p.Each != nil || p.Hidden != nil) {
		return fmt.Errorf("generate: found %d drafts among %d ids, want fewer, drawn, of one sequence that has room",
			p.Drafts, len(p.IDs))
	}
	return p.Batch.Check(p.IDs)
}

// pass holds the rows of one call of a model. It is borrowed from a pool for a call of Feed, so that idle batches hold
// no such memory.
type pass struct {
	rows model.Rows
	ids  []int32
	last []place   // where to store logits, except those passed to Each
	ends []int32   // for each of last, the index in ids of the id before the logits
	hear []call    // for each row, the call that receives its hidden states
	each []call    // for each of told, the call that receives the logits
	told []int32   // indices in ids after which logits are passed to Each
	at   []int     // for each sequence of each part, the number of ids read
	all  []float32 // logits after several ids, or a hidden state
}

type place struct {
	s  *Batch
	i  int
	to []float32 // if not nil, the destination instead of s and i
}

// keep stores a row of x as the logits of the place.
func (p place) keep(x *tensor.Tensor, row, v int) {
	if p.to != nil {
		x.CopyRowTo(p.to, row)
		return
	}
	if p.s.logits == nil {
		p.s.logits = make([]float32, len(p.s.states)*v)
	}
	x.CopyRowTo(p.s.logits[p.i*v:], row)
}

// call is a callback for the logits after an id of a part, or for the hidden states after the ids from there on.
type call struct {
	f    func(at int, x []float32)
	at   int
	last place // also receives the logits if it has a batch
}

var batches = sync.Pool{New: func() any { return new(pass) }}

func lend() *pass { return batches.Get().(*pass) }

func (b *pass) giveBack() {
	b.clear()
	b.at = b.at[:0]
	batches.Put(b)
}

func (b *pass) clear() {
	b.rows.Clear()
	clear(b.last)
	clear(b.hear)
	clear(b.each)
	b.ids, b.last, b.ends = b.ids[:0], b.last[:0], b.ends[:0]
	b.hear, b.each, b.told = b.hear[:0], b.each[:0], b.told[:0]
}

// add adds ids of sequence i of s to the pass. If last is set, the sequence gets the logits after them.
func (b *pass) add(s *Batch, i int, ids []int32, drawn, last bool) {
	if drawn {
		b.rows.AddStepped(len(ids), s.states[i])
	} else {
		b.rows.Add(len(ids), s.states[i])
	}
	b.ids = append(b.ids, ids...)
	if last {
		b.last, b.ends = append(b.last, place{s: s, i: i}), append(b.ends, int32(len(b.ids)-1))
	}
}

// addOf is like add, for the ids of a part from index at on. It also adds the part's callbacks.
func (b *pass) addOf(p *Part, i int, ids []int32, at int, last bool) {
	if s := p.Batch; p.Drafts > 0 || s.ahead.sure > 0 {
		b.addDrawn(s, ids, p.Drafts, !last)
		b.hear = append(b.hear, s.ahead.hearing(s.model, p.Drafts))
		return
	}
	from := len(b.ids)
	b.add(p.Batch, i, ids, p.Drawn, last && p.Each == nil)
	for k := range ids {
		if p.Each != nil {
			b.each, b.told = append(b.each, call{f: p.Each, at: at + k}), append(b.told, int32(from+k))
		}
	}
	if last && p.Each != nil { // do not compute these logits twice
		b.each[len(b.each)-1].last = place{s: p.Batch, i: i}
	}
	b.hear = append(b.hear, call{f: p.Hidden, at: at})
}

// together is the maximum number of positions of pieces in one call of the model, unless a single piece has more. It
// keeps memory small, and products are as fast as they get. Pieces of one position do not count.
const together = 512

// round reads the next piece of every batch and reports whether there are more.
func (b *pass) round(m *model.Model, parts []Part) (more bool) {
	b.clear()
	at, reads := 0, 0
	for _, p := range parts {
		n := len(p.Batch.states)
		l := len(p.IDs) / n
		for i := range n {
			if at == len(b.at) {
				b.at = append(b.at, 0)
			}
			if lo := b.at[at]; lo < l {
				hi := min(l, lo+p.piece(i))
				if hi-lo > 1 {
					if reads += hi - lo; reads > together && len(b.ids) > 0 {
						b.run(m)
						b.clear()
						reads = hi - lo
					}
				}
				b.addOf(&p, i, p.IDs[i*l+lo:i*l+hi], i*l+lo, hi == l && !p.Silent)
				b.at[at], more = hi, more || hi < l
			}
			at++
		}
	}
	b.run(m)
	at = 0
	for _, p := range parts {
		n := len(p.Batch.states)
		if p.Silent {
			p.Batch.logits = nil
		}
		if p.Batch.Progress != nil {
			p.Batch.Progress(slices.Min(b.at[at:at+n]), len(p.IDs)/n)
		}
		at += n
	}
	return more
}

// piece returns the maximum number of ids of sequence i that the next call reads.
func (p *Part) piece(i int) int {
	if p.Drawn {
		return StepRows - p.Batch.ahead.sure
	}
	return p.Batch.Piece(i)
}

// stop removes the logits of batches that have read only a part of their ids.
func (b *pass) stop(parts []Part) {
	at := 0
	for _, p := range parts {
		n, read := len(p.Batch.states), 0
		for range n {
			if at < len(b.at) {
				read += b.at[at]
			}
			at++
		}
		if read > 0 && read < len(p.IDs) {
			p.Batch.logits = nil
		}
	}
}

// run lets the model read all rows, calls the callbacks, and stores the requested logits.
func (b *pass) run(m *model.Model) {
	tape := m.Tapes.Lend()
	defer m.Tapes.Return(tape)
	hidden := m.Forward(tape, b.ids, &b.rows)
	if m.MTP != nil {
		m.MTP.Follow(tape, b.ids, hidden, &b.rows)
	}
	b.tellLogits(m, hidden)
	b.tellHidden(m, hidden)
	if len(b.last) == 0 {
		return
	}
	logits, v := m.LogitsAt(tape, hidden, b.ends), m.Config.PaddedVocab()
	for row, p := range b.last {
		p.keep(logits, row, v)
	}
}

// tellRows is the number of positions whose logits are computed at a time for Each. It is small, as logits are long.
const tellRows = 16

// tellLogits computes the logits for Each from the hidden states of all rows, and calls Each.
func (b *pass) tellLogits(m *model.Model, hidden *tensor.Tensor) {
	v := m.Config.PaddedVocab()
	for lo := 0; lo < len(b.told); lo += tellRows {
		at := b.told[lo:min(lo+tellRows, len(b.told))]
		calls := b.each[lo:][:len(at)]
		b.all = slices.Grow(b.all[:0], len(at)*v)[:len(at)*v]
		tape := m.Tapes.Lend() // a new one for each batch of rows, to reuse its memory
		logits := m.LogitsAt(tape, hidden, at)
		logits.CopyTo(b.all)
		for i, c := range calls {
			if c.last.s != nil {
				c.last.keep(logits, i, v)
			}
		}
		m.Tapes.Return(tape)
		parallel.For(len(at), 1, func(first, end int) {
			for i := first; i < end; i++ {
				calls[i].f(calls[i].at, b.all[i*v:][:m.Config.VocabSize])
			}
		})
	}
}

// tellHidden calls Hidden for each id.
func (b *pass) tellHidden(m *model.Model, hidden *tensor.Tensor) {
	from := 0
	for row, c := range b.hear {
		l := b.rows.Len(row)
		for i := 0; i < l && c.f != nil; i++ {
			b.all = slices.Grow(b.all[:0], m.Config.DModel)[:m.Config.DModel]
			hidden.CopyRowTo(b.all, from+i)
			c.f(c.at+i, b.all)
		}
		from += l
	}
}
