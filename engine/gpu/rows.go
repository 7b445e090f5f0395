//go:build gpu

package gpu

import (
	"slices"

	"github.com/hippo-ssm/hippo/engine"
)

// ids copies lists of row numbers to the device, for the next launch. done frees their memory.
func (c *core) ids(lists ...[]int32) (from []uint64, done func()) {
	var all []int32
	var starts []int
	for _, x := range lists {
		starts = append(starts, len(all))
		all = append(all, x...)
	}
	c.counts.IDs += len(lists[0])
	memory, err := c.take(4 * len(all))
	if err != nil {
		c.fail(err)
		return make([]uint64, len(lists)), func() {}
	}
	c.write(memory, bytesOf(all))
	for _, s := range starts {
		from = append(from, memory.address()+4*uint64(s))
	}
	return from, func() { c.memory.put(memory) }
}

// mostTables is the number of tables that are cached on the device.
const mostTables = 1 << 12

// table returns the address of a table on the device. Tables are cached there, because tokens that are decoded one
// after another need the same ones. c.mu must be held until the launch that reads the table is recorded.
func (c *core) table(data []byte) uint64 {
	at, there := c.tables[string(data)]
	if !there {
		if len(c.tables) >= mostTables {
			for _, old := range c.tables {
				c.memory.put(old)
			}
			clear(c.tables)
		}
		var err error
		if at, err = c.take(len(data)); err != nil {
			c.fail(err)
			return 0
		}
		c.counts.Tables += len(data) / 4
		c.write(at, data)
		c.tables[string(data)] = at
	}
	return at.address()
}

// tile is the number of positions in a tile of a scan.
const tile = 16

// rows is a table of rows for rows.glsl, with the addresses of the states before and after each row.
type rows struct {
	data         []byte
	count, tiles int
	longest      int // positions of the longest row
}

// rowsOf returns the table of r, with states that are updated in place.
func (e *Engine) rowsOf(r *engine.Rows, slots engine.Slots) (t rows) {
	for i := range r.Count() {
		state := e.state(slots.At(i))
		t.add(r.From(i), r.Len(i), state, state)
	}
	return t
}

func (t *rows) add(from, l int, before, after uint64) {
	t.data = numbers(addresses(numbers(t.data, from, l), before, after), t.tiles)
	t.count, t.tiles, t.longest = t.count+1, t.tiles+blocks(l, tile), max(t.longest, l)
}

// each launches a kernel on n workgroups for each row. The arguments are addresses, the address of the table, and those
// that more adds.
func (e *Engine) each(name string, t *rows, addresses []uint64, n int, more func(a *args), constants ...uint32) {
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	a := new(args).address(addresses...).address(e.c.table(t.data))
	more(a)
	e.launch(name, a, n*t.count, constants...)
}

// Gather sets to[i] = x[rows[i]].
func (c *core) Gather(to, x engine.View, rows []int32) {
	c.eachRow(to, x, func(to, x engine.View) {
		if len(rows) == 0 || to.Shape[0] == 0 {
			return
		}
		places, done := c.ids(rows)
		defer done()
		inner, empty := axesOf(row(to), row(x))
		if empty {
			return
		}
		n := len(rows) * inner.len()
		p := new(args).address(at(to), at(x), 0, places[0]).int(n, opGather).float(0, 0).int(len(rows))
		p.int(padded(3, 1, inner.shape)...)
		for k, v := range []engine.View{to, x} {
			p.int(v.Stride[0]).int(padded(3, 0, inner.stride[k])...)
		}
		p.int(make([]int, 8)...)
		c.launch("pointwise", p.work(8*n, 0), blocks(n, 256))
	})
}

// Scatter adds to[rows[i]] += x[i], in the order of i.
func (c *core) Scatter(to, x engine.View, rows []int32) {
	order := make([]int32, len(rows))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(i, j int32) int { return int(rows[i]) - int(rows[j]) })
	var distinct, first []int32
	for k, i := range order {
		if k == 0 || rows[i] != distinct[len(distinct)-1] {
			distinct, first = append(distinct, rows[i]), append(first, int32(k))
		}
	}
	first = append(first, int32(len(rows)))
	c.eachRow(to, x, func(to, x engine.View) {
		if len(rows) == 0 {
			return
		}
		places, done := c.ids(order, distinct, first)
		defer done()
		inner, empty := axesOf(row(to), row(x))
		if empty {
			return
		}
		width := inner.len()
		n, two := len(distinct)*width, padded(2, 1, inner.shape)
		p := new(args).address(at(to), at(x), places[1], places[2], places[0]).int(n, width, two[1])
		for k, v := range []engine.View{to, x} {
			p.int(v.Stride[0]).int(padded(2, 0, inner.stride[k])...)
		}
		c.launch("scatter", p.work(4*width*(len(rows)+2*len(distinct)), width*len(rows)), blocks(n, 64))
	})
}

// row returns the first row of a view.
func row(v engine.View) engine.View {
	return engine.View{Of: v.Of, At: v.At, Shape: v.Shape[1:], Stride: v.Stride[1:]}
}

// eachRow calls f with the views and c.mu held. If a row has more than two axes of a length above one, eachRow calls f
// with parts of the views instead.
func (c *core) eachRow(to, x engine.View, f func(to, x engine.View)) {
	inner, empty := axesOf(row(to), engine.View{Of: x.Of, At: x.At, Shape: to.Shape[1:], Stride: x.Stride[1:]})
	if empty {
		return
	}
	if len(inner.shape) <= 2 {
		c.mu.Lock()
		defer c.mu.Unlock()
		f(to, x)
		return
	}
	part := func(v engine.View, i int) engine.View {
		return engine.View{Of: v.Of, At: v.At + i*v.Stride[1], Shape: slices.Delete(slices.Clone(v.Shape), 1, 2),
			Stride: slices.Delete(slices.Clone(v.Stride), 1, 2)}
	}
	for i := range to.Shape[1] {
		c.eachRow(part(to, i), part(x, i), f)
	}
}
