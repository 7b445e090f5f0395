//go:build gpu

package gpu

import (
	"encoding/binary"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// mostHeadDim is the widest head that the kernel takes.
const mostHeadDim = 256

func (e *Engine) Attention(qkv *tensor.Tensor, r *engine.Rows, caches []*engine.KVCache, o engine.AttentionOptions,
	drop uint64) *tensor.Tensor {
	hd := qkv.Dim(-1) / o.Packed()
	if e.Recording || o.Blocks != nil || r.Trains() && o.Dropout > 0 || hd > mostHeadDim {
		return e.Engine.Attention(qkv, r, caches, o, drop)
	}
	y := e.like(qkv, o.Heads*hd)
	queries := e.like(qkv, o.Heads*hd)
	for i := range r.Count() {
		c := &engine.KVCache{KeysAsValues: o.KeysAsValues} // of a row that stores nothing
		if i < len(caches) && caches[i] != nil {
			c = caches[i]
		}
		past := o.Remembered(c.Len)
		c.Keep(past)
		c.ReserveBeside(y, r.Start(i), r.Len(i), o.KeyHeads(), hd)
		e.split(qkv, queries, r, i, c, &o, hd)
		c.Len += r.Len(i)
		e.attend(y, queries, r, i, c, &o, past, hd)
		c.Keep(o.Remembered(c.Len))
	}
	return y
}

// split puts the keys and values of row i into the cache, and its queries into q.
func (e *Engine) split(qkv, q *tensor.Tensor, r *engine.Rows, i int, c *engine.KVCache, o *engine.AttentionOptions,
	hd int) {
	freq, turned := uint64(0), o.Rotary.Dim
	if turned > 0 {
		freq = e.frequencies(o.Rotary)
	}
	for done := 0; done < r.Len(i); {
		page, place, left := c.At(c.Len + done)
		l := min(left, r.Len(i)-done)
		keys, values := page.Rows[0], page.Rows[len(page.Rows)-1]
		at := r.From(i) + done
		n := (o.Heads + 2*o.KeyHeads()) * hd // of a row
		e.run("heads", new(args).address(e.addressAt(qkv, at), e.addressAt(q, at), e.address(keys), e.address(values),
			freq).int(l, o.Heads, o.KeyHeads(), o.Packed(), hd, turned, r.Start(i)+done, place, page.Room).
			float(o.Rotary.Magnitude(), o.Rotary.XPos).work(8*l*n, 0), blocks(l*n, 64))
		done += l
	}
}

// attend computes the outputs of row i.
func (e *Engine) attend(y, q *tensor.Tensor, r *engine.Rows, i int, c *engine.KVCache, o *engine.AttentionOptions,
	past, hd int) {
	_, skip, _ := c.At(0)
	var table []byte
	for at := 0; at < c.Len; {
		page, _, left := c.At(at)
		for _, x := range []uint64{e.address(page.Rows[0]), e.address(page.Rows[len(page.Rows)-1]), uint64(page.Room)} {
			table = binary.LittleEndian.AppendUint64(table, x)
		}
		at += left
	}
	ahead, slopes := past, uint64(0)
	if o.Ahead {
		ahead = -1
	}
	if o.ALiBi {
		slopes = e.slopes(o.Heads)
	}
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	memory, err := e.c.take(len(table))
	if err != nil {
		e.c.fail(err)
		return
	}
	defer e.c.memory.put(memory)
	e.c.write(memory, table)
	e.launch("attention", new(args).address(e.addressAt(y, r.From(i)), e.addressAt(q, r.From(i)),
		memory.address(), slopes).int(r.Len(i), o.Heads, o.KeyHeads(), hd, skip, c.Len, ahead, o.Window).
		float(o.ScaleOf(hd)).work(8*hd*(c.Len*o.KeyHeads()+r.Len(i)*o.Heads), 4*r.Len(i)*c.Len*o.Heads*hd),
		r.Len(i)*o.Heads)
}

// frequencies is where those of rotary positions lie, copied in once.
func (e *Engine) frequencies(rot engine.Rotary) uint64 {
	return e.take(e.Constant(rot, rot.InvFreq).(*buffer))
}

// slopes are those of ALiBi.
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
