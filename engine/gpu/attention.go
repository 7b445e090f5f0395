//go:build gpu

package gpu

import (
	"encoding/binary"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// mostHeadDim is the largest head dimension that the kernel supports.
const mostHeadDim = 256

func (e *Engine) Attention(qkv *tensor.Tensor, r *engine.Rows, caches []*engine.KVCache, o engine.AttentionOptions,
	drop uint64) *tensor.Tensor {
	hd := qkv.Dim(-1) / o.Packed()
	if e.Recording || o.Blocks != nil || r.Trains() && o.Dropout > 0 || hd > mostHeadDim {
		return e.Engine.Attention(qkv, r, caches, o, drop)
	}
	y, q := e.like(qkv, o.Heads*hd), e.like(qkv, o.Heads*hd)
	all := make([]*engine.KVCache, r.Count())
	var s sequences
	for i := range all {
		c := &engine.KVCache{KeysAsValues: o.KeysAsValues} // for a row without a cache
		if i < len(caches) && caches[i] != nil {
			c = caches[i]
		}
		past, l := o.Remembered(c.Len), r.Len(i)
		c.Keep(past)
		c.ReserveBeside(y, r.Start(i), l, o.KeyHeads(), hd)
		s.put(e, r, i, c)
		c.Len += l
		if all[i] = c; o.Ahead {
			past = -1
		}
		s.see(e, r, i, c, past)
		s.moved, s.flops = s.moved+8*hd*(c.Len*o.KeyHeads()+l*o.Heads), s.flops+4*l*c.Len*o.Heads*hd
	}
	e.attend(y, q, qkv, r, &s, &o, hd)
	for _, c := range all {
		c.Keep(o.Remembered(c.Len))
	}
	return y
}

// sequences holds the tables of rows and of their caches that the kernels of attention read.
type sequences struct {
	pieces, rows, pages []byte // the tables of heads.comp and attention.comp
	longest             int    // positions of the longest piece
	moved, flops        int
}

// The sizes of the elements of these tables.
const (
	pieceBytes    = 7 * 8
	sequenceBytes = 6 * 8
	pageBytes     = 3 * 8
)

// put adds to pieces where the keys and values of row i are stored in its cache.
func (s *sequences) put(e *Engine, r *engine.Rows, i int, c *engine.KVCache) {
	for done := 0; done < r.Len(i); {
		page, place, left := c.At(c.Len + done)
		l := min(left, r.Len(i)-done)
		s.pieces = numbers(s.pieces, r.From(i)+done, l, r.Start(i)+done, place, page.Room)
		s.pieces = addresses(s.pieces, e.pageOf(page)...)
		s.longest, done = max(s.longest, l), done+l
	}
}

// see adds row i and the pages of its cache. ahead is the number of positions before its first query, or -1 if each
// query sees all positions.
func (s *sequences) see(e *Engine, r *engine.Rows, i int, c *engine.KVCache, ahead int) {
	_, skip, _ := c.At(0)
	s.rows = numbers(s.rows, r.From(i), r.Len(i), skip, c.Len, ahead, len(s.pages)/pageBytes)
	for at := 0; at < c.Len; {
		page, _, left := c.At(at)
		s.pages = numbers(addresses(s.pages, e.pageOf(page)...), page.Room)
		at += left
	}
}

// pageOf returns the addresses of the keys and the values of a page.
func (e *Engine) pageOf(p *engine.Page) []uint64 {
	return []uint64{e.address(p.Rows[0]), e.address(p.Rows[len(p.Rows)-1])}
}

func numbers(to []byte, all ...int) []byte {
	for _, x := range all {
		to = binary.LittleEndian.AppendUint64(to, uint64(x))
	}
	return to
}

func addresses(to []byte, all ...uint64) []byte {
	for _, x := range all {
		to = binary.LittleEndian.AppendUint64(to, x)
	}
	return to
}

// attend stores the queries, keys and values, and computes the outputs of all rows.
func (e *Engine) attend(y, q, qkv *tensor.Tensor, r *engine.Rows, s *sequences, o *engine.AttentionOptions, hd int) {
	freq, turned, slopes := uint64(0), o.Rotary.Dim, uint64(0)
	if turned > 0 {
		freq = e.frequencies(o.Rotary)
	}
	if o.ALiBi {
		slopes = e.slopes(o.Heads)
	}
	to, queries, from := e.address(y), e.address(q), e.address(qkv)
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	memory, err := e.c.take(len(s.pieces) + len(s.rows) + len(s.pages))
	if err != nil {
		e.c.fail(err)
		return
	}
	defer e.c.memory.put(memory)
	tables := slices.Concat(s.pieces, s.rows, s.pages)
	e.c.counts.Tables += len(tables) / 4
	e.c.write(memory, tables)
	pieces, n := memory.address(), (o.Heads+2*o.KeyHeads())*hd // numbers of a position
	rows := pieces + uint64(len(s.pieces))
	count := len(s.pieces) / pieceBytes
	e.launch("heads", new(args).address(from, queries, freq, pieces).int(o.Heads, o.KeyHeads(), o.Packed(), hd, turned,
		s.longest, count).float(o.Rotary.Magnitude(), o.Rotary.XPos).work(8*r.Total()*n, 0),
		count*blocks(s.longest*n, 64))
	e.launch("attention", new(args).address(to, queries, rows, rows+uint64(len(s.rows)), slopes).int(o.Heads,
		o.KeyHeads(), hd, r.Longest(), r.Count(), o.Window).float(o.ScaleOf(hd)).work(s.moved, s.flops),
		r.Count()*r.Longest()*o.Heads)
}

// frequencies returns the address of the frequencies of rotary positions, which are copied in once.
func (e *Engine) frequencies(rot engine.Rotary) uint64 {
	return e.take(e.Constant(rot, rot.InvFreq).(*buffer))
}

// slopes returns the address of the slopes of ALiBi.
func (e *Engine) slopes(heads int) uint64 {
	type alibi struct{ heads int }
	return e.take(e.Constant(alibi{heads}, func() []float32 {
		m := make([]float32, heads)
		for h := range m {
			m[h] = float32(engine.ALiBiSlope(h, heads))
		}
		return m
	}).(*buffer))
}
