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

// Part is what Feed reads in one batch.
type Part struct {
	Batch  *Batch
	IDs    []int32 // (batch, l), row-major: l ids for each of its sequences
	Silent bool    // no one wants the logits after the last id: the batch is then without
	// Drawn reads IDs one at a time: the bits are those of a call for each, as of ids that are drawn.
	Drawn bool
	// Drafts is how many of IDs, the last ones, are guesses, after at least one that is none. IDs are then Drawn, of a
	// batch of one sequence, and at most Room more than one. The batch is at the first guess: see Take.
	Drafts int
	// Each, unless it is nil, is called once with the logits after every one of IDs: at is its place there. Several
	// goroutines call it at once, in no order. Reading is slower by the products that these logits take. They are valid
	// during the call.
	Each func(at int, logits []float32)
	// Hidden, unless it is nil, is called with the hidden states after the final norm, of d_model numbers: one after
	// another, those of one sequence in order.
	Hidden func(at int, hidden []float32)
}

// Feed is Batch.Feed of several batches of one model at once, whatever their ages, and however many ids each is to
// read: the way to take all batches of a server one token further, while others read a piece of their prompt. Each
// gets the bits that it would get alone. No batch may come twice.
//
// A call has as many rounds as the batch with the most pieces, and in a round each reads a piece (see Batch): if
// the answer is wanted soon, no prompt should have more than one piece.
//
// After the error of a context that is done each batch is at the end of a piece, and those that have not read all of
// theirs are without logits. After any other error all are unchanged.
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

// pass is the rows of one call of a model. It is lent for the time of a call of Feed, so that what waits holds
// nothing.
type pass struct {
	rows model.Rows
	ids  []int32
	last []place   // whose logits are wanted, unless they are told anyway
	ends []int32   // after which of ids, for each of them
	hear []call    // of each row with hidden states that are told
	each []call    // of each id after which logits are told
	told []int32   // which of ids those are
	at   []int     // of each sequence of each part, how many ids it has read
	all  []float32 // logits after several ids, or a hidden state
}

type place struct {
	s  *Batch
	i  int
	to []float32 // in the place of both
}

// keep makes x the logits of the place.
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

// call tells logits after an id of a part, or hidden states after those from there on.
type call struct {
	f    func(at int, x []float32)
	at   int
	last place // to which the logits belong, too, if it has a batch
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

// add puts ids of sequence i of s after the others, after which it has logits if last is set.
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

// addOf is add of the ids of a part from at on, with those who are told.
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
	if last && p.Each != nil { // they are not computed twice
		b.each[len(b.each)-1].last = place{s: p.Batch, i: i}
	}
	b.hear = append(b.hear, call{f: p.Hidden, at: at})
}

// together is how many positions of pieces the model reads in one call, unless one piece has more: their memory stays
// small, and products are as fast as they get. A piece of one position goes with any others.
const together = 512

// round has every batch read its next piece, and reports whether there are more.
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

// piece is how many ids of sequence i are read at most in the next call.
func (p *Part) piece(i int) int {
	if p.Drawn {
		return StepRows - p.Batch.ahead.sure
	}
	return p.Batch.Piece(i)
}

// stop takes the logits of batches that have read a part of their ids only.
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

// run has the model read all rows, and keeps the logits after those that want them.
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

// tellRows is how many positions have logits at a time for those who are told them all: few, as logits are long.
const tellRows = 16

// tellLogits calls those who want the logits after each id, of all rows together, given the hidden states.
func (b *pass) tellLogits(m *model.Model, hidden *tensor.Tensor) {
	v := m.Config.PaddedVocab()
	for lo := 0; lo < len(b.told); lo += tellRows {
		at := b.told[lo:min(lo+tellRows, len(b.told))]
		calls := b.each[lo:][:len(at)]
		b.all = slices.Grow(b.all[:0], len(at)*v)[:len(at)*v]
		tape := m.Tapes.Lend() // so that the memory of the last ones serves the next
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

// tellHidden calls those who want the hidden states after each id.
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
