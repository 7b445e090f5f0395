package kernel

// Input is a real sequence for ConvPlan.Begin.
type Input interface {
	// Rows returns the sequence in place. ok is false if Fill must be used instead.
	Rows() (x Rows, ok bool)
	// Fill sets z [n][Lanes] to the rows [t, t+n). It is always called for row 0.
	Fill(z []float32, t, n int)
}

// Output takes the results of ConvPlan.End.
type Output interface {
	// Rows returns the memory for the sequence of a single spectrum, and how it is written. Some rows are still passed
	// to Put; row 0 always is.
	Rows() (y Rows, how Placing)
	// Put receives the rows [t, t+n) of one spectrum in a, and those of a second one in b, nil if there is none. Rows
	// come in an order private to the plan. Put may overwrite a and b [n][Lanes].
	Put(a, b []float32, t, n int)
}

// Placing tells how results are written.
type Placing int

// Results are passed to Put, written in place, or added in place.
const (
	ByPut Placing = iota
	Written
	Added
)

// Begin runs the outer passes on the sequence of l ≤ n rows, which is zero from there on.
func (p *ConvPlan) Begin(s Spectrum, in Input, l int) {
	x, placed := in.Rows()
	if placed {
		x.check(l)
		for t := 0; t < l; t += p.outer[0].part {
			Prefetch(x.From(t), min(askedRows, l-t))
		}
	}
	p.columns(func(q, count int) {
		p.chunks(q, count, l, func(at, t, count, rows, then int) {
			first := &p.outer[0]
			r := realRows{x: s.rows, step: count * Lanes, next: Lanes, rows: rows}
			switch {
			case rows == 0:
			case placed && t > 0:
				r = p.placed(x, t, rows, then)
			default:
				for j := range rows {
					in.Fill(s.rows[j*count*Lanes:][:count*Lanes], t+j*first.part, count)
				}
			}
			first.firstPart(s.re[at:], s.im[at:], &r, t, count, p.in)
		})
		blocks := p.outer[0].radix
		for i := range p.outer[1:] {
			pass := &p.outer[1+i]
			for at := 0; at < pass.step; at += p.step {
				pass.difPart(s.re[at+q*Lanes:], s.im[at+q*Lanes:], at/p.step*(p.block/Lanes)+q, count, blocks)
			}
			blocks *= pass.radix
		}
	})
}

// placed returns the rows x of a sequence that the first pass reads for points from t on. Rows for points from then on
// are prefetched.
func (p *ConvPlan) placed(x Rows, t, rows, then int) realRows {
	return realRows{x: x.X[t*x.Step:], step: p.outer[0].part * x.Step, next: x.Step,
		rows: rows, ahead: (then - t) * x.Step}
}

// End runs the inverse of the outer passes on one spectrum, or two at a time, and outputs the first l ≤ n rows of the
// sequences.
func (p *ConvPlan) End(out Output, l int, a, b Spectrum) {
	y, how := out.Rows()
	if how != ByPut {
		y.check(l)
	}
	p.columns(func(q, count int) {
		p.outerBack(a, q, count)
		if b.re != nil {
			p.outerBack(b, q, count)
		}
		p.chunks(q, count, l, func(at, t, count, rows, then int) {
			switch {
			case rows == 0:
			case how != ByPut && t > 0:
				r := p.placed(y, t, rows, then)
				r.add = how == Added
				p.outer[0].lastPart(a.im[at:], a.re[at:], &r, t, count, p.out)
			default:
				p.put(out, a, b, at, t, count, rows)
			}
		})
	})
	streamed()
}

// put passes count columns of rows from t on to out. They begin at float at of a and b.
func (p *ConvPlan) put(out Output, a, b Spectrum, at, t, count, rows int) {
	first := &p.outer[0]
	for _, s := range [2]Spectrum{a, b} {
		if s.re != nil {
			r := realRows{x: s.rows, step: count * Lanes, next: Lanes, rows: rows}
			first.lastPart(s.im[at:], s.re[at:], &r, t, count, p.out)
		}
	}
	n := count * Lanes
	for j := range rows {
		var y []float32
		if b.re != nil {
			y = b.rows[j*n:][:n]
		}
		out.Put(a.rows[j*n:][:n], y, t+j*first.part, count)
	}
}

// outerBack runs the inverse outer passes, except for the last, on count columns from q on.
func (p *ConvPlan) outerBack(s Spectrum, q, count int) {
	blocks := p.blocks
	for i := len(p.outer) - 1; i > 0; i-- {
		pass := &p.outer[i]
		blocks /= pass.radix
		for at := 0; at < pass.step; at += p.step {
			pass.ditPart(s.im[at+q*Lanes:], s.re[at+q*Lanes:], at/p.step*(p.block/Lanes)+q, count, blocks)
		}
	}
}

// columns calls f for count columns from q on of all blocks, with at most ConvRows rows of the first pass in each call.
func (p *ConvPlan) columns(f func(q, count int)) {
	count := ConvRows / p.outer[0].radix
	for q, end := 0, p.block/Lanes; q < end; q += count {
		f(q, min(count, end-q))
	}
}

// askedRows is the number of points of the first pass whose rows are prefetched. Rows that lie a power of two apart
// share cache sets, and each point has as many of them as its radix: if they are prefetched much earlier, they are
// evicted before they are used.
const askedRows = 16

// chunks calls f for the parts of such columns that the first pass processes together: count points from t on, at float
// at of a spectrum. Of a sequence of l rows, the rows t + j·part exist for j < rows. The points from then on follow.
func (p *ConvPlan) chunks(q, count, l int, f func(at, t, count, rows, then int)) {
	part, block := p.outer[0].part, p.block/Lanes
	for at := 0; at < p.outer[0].step; at += p.step {
		t := at/p.step*block + q
		next := t + block // the first point of the next chunk
		if at+p.step >= p.outer[0].step {
			next = q + count
		}
		for end := t + count; t < end; {
			rows, stop := max(0, ceil(l-t, part)), min(end, t+askedRows)
			if rows > 0 {
				stop = min(stop, l-(rows-1)*part) // from there on there is one row less
			}
			if t == 0 {
				stop = 1 // not every input and output can handle row 0 in place
			}
			then := stop
			if stop == end {
				then = next
			}
			f(at+(q+count-(end-t))*Lanes, t, stop-t, rows, then)
			t = stop
		}
	}
}
