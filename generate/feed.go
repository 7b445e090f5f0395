package generate

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// Part is what Feed reads in one session.
type Part struct {
	Session *Session
	IDs     []int32 // (batch, l), row-major: l ids for each of its sequences
	Silent  bool    // nobody wants the logits after the last id: the session is then without
	// Each, unless it is nil, is called with the logits after every one of IDs: at is its place there. Those of one
	// sequence come in order. Reading is slower by the products that these logits take. They are valid during the call.
	Each func(at int, logits []float32)
	// Hidden, unless it is nil, is called likewise with the hidden states after the final norm, of d_model numbers.
	Hidden func(at int, hidden []float32)
}

// Feed is Session.Feed of several sessions of one model at once, whatever their ages, and however many ids each is to
// read: the way to take all sessions of a server one token further, while others read a piece of their prompt. Each
// gets the bits that it would get alone. No session may come twice.
//
// A call has as many rounds as the session with the most pieces, and in a round each reads a piece (see Session): if
// the answer is wanted soon, no prompt should have more than one piece.
//
// After the error of a context that is done each session is at the end of a piece, and those that have not read all of
// theirs are without logits. After any other error all are unchanged.
func Feed(ctx context.Context, parts ...Part) error {
	if len(parts) == 0 {
		return nil
	}
	m := parts[0].Session.model
	for _, p := range parts {
		if p.Session.model != m {
			return fmt.Errorf("generate: found sessions of different models, want those of one")
		}
		if err := p.Session.Check(p.IDs); err != nil {
			return err
		}
	}
	for _, p := range parts {
		if err := p.Session.flush(func(int) bool { return true }); err != nil {
			return err
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

// batch is the rows of one call of a model. It is lent for the time of a call of Feed, so that what waits holds
// nothing.
type batch struct {
	rows model.Rows
	ids  []int32
	last []place   // whose logits are wanted
	ends []int32   // after which of ids, for each of them
	each []call    // of each row: who is told the logits after each of its ids
	at   []int     // of each sequence of each part, how many ids it has read
	all  []float32 // logits after several ids, or a hidden state
}

type place struct {
	s *Session
	i int
}

// call tells the logits and the hidden states after the ids of a row, which are those from at on of a part.
type call struct {
	logits, hidden func(at int, x []float32)
	at             int
}

var batches = sync.Pool{New: func() any { return new(batch) }}

func lend() *batch { return batches.Get().(*batch) }

func (b *batch) giveBack() {
	b.clear()
	b.at = b.at[:0]
	batches.Put(b)
}

func (b *batch) clear() {
	b.rows.Clear()
	clear(b.last)
	clear(b.each)
	b.ids, b.last, b.ends, b.each = b.ids[:0], b.last[:0], b.ends[:0], b.each[:0]
}

// add puts ids of sequence i of s behind the others, after which it has logits if last is set.
func (b *batch) add(s *Session, i int, ids []int32, last bool, each call) {
	b.rows.Add(len(ids), s.states[i])
	b.ids, b.each = append(b.ids, ids...), append(b.each, each)
	if last {
		b.last, b.ends = append(b.last, place{s, i}), append(b.ends, int32(len(b.ids)-1))
	}
}

// round has every session read its next piece, and reports whether there are more.
func (b *batch) round(m *model.Model, parts []Part) (more bool) {
	b.clear()
	at := 0
	for _, p := range parts {
		n := len(p.Session.states)
		l := len(p.IDs) / n
		for i := range n {
			if at == len(b.at) {
				b.at = append(b.at, 0)
			}
			if lo := b.at[at]; lo < l {
				hi := min(l, lo+p.Session.Piece(i))
				b.add(p.Session, i, p.IDs[i*l+lo:i*l+hi], hi == l && !p.Silent, call{p.Each, p.Hidden, i*l + lo})
				b.at[at], more = hi, more || hi < l
			}
			at++
		}
	}
	b.run(m)
	at = 0
	for _, p := range parts {
		n := len(p.Session.states)
		if p.Silent {
			p.Session.logits = nil
		}
		if p.Session.Progress != nil {
			p.Session.Progress(slices.Min(b.at[at:at+n]), len(p.IDs)/n)
		}
		at += n
	}
	return more
}

// stop takes the logits of sessions that have read a part of their ids only.
func (b *batch) stop(parts []Part) {
	at := 0
	for _, p := range parts {
		n, read := len(p.Session.states), 0
		for range n {
			if at < len(b.at) {
				read += b.at[at]
			}
			at++
		}
		if read > 0 && read < len(p.IDs) {
			p.Session.logits = nil
		}
	}
}

// run has the model read all rows, and keeps the logits after those that want them.
func (b *batch) run(m *model.Model) {
	tape := m.Tapes.Lend()
	defer m.Tapes.Return(tape)
	hidden := m.Forward(tape, b.ids, &b.rows)
	b.tell(m, tape, hidden)
	if len(b.last) == 0 {
		return
	}
	logits, v := m.LogitsAt(tape, hidden, b.ends), m.Config.PaddedVocab()
	for row, p := range b.last {
		if p.s.logits == nil {
			p.s.logits = make([]float32, len(p.s.states)*v)
		}
		logits.CopyRowTo(p.s.logits[p.i*v:], row)
	}
}

// tellRows is how many positions have logits at a time for those who are told them all: few, as logits are long.
const tellRows = 16

// tell calls those who want the logits or the hidden states after each id, given the hidden states of all rows.
func (b *batch) tell(m *model.Model, tape *autograd.Tape, hidden *tensor.Tensor) {
	v, d := m.Config.PaddedVocab(), m.Config.DModel
	from := 0
	for row, c := range b.each {
		l := b.rows.Len(row)
		for lo := 0; lo < l && c.logits != nil; lo += tellRows {
			n := min(tellRows, l-lo)
			own := m.Tapes.Lend() // so that the memory of the last ones serves the next
			logits := m.Logits(own, tape.Slice(hidden, from+lo, n))
			b.all = slices.Grow(b.all[:0], n*v)[:n*v]
			logits.CopyTo(b.all)
			m.Tapes.Return(own)
			for i := range n {
				c.logits(c.at+lo+i, b.all[i*v:][:m.Config.VocabSize])
			}
		}
		for i := 0; i < l && c.hidden != nil; i++ {
			b.all = slices.Grow(b.all[:0], d)[:d]
			hidden.CopyRowTo(b.all, from+i)
			c.hidden(c.at+i, b.all)
		}
		from += l
	}
}
