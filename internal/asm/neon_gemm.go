package main

import "fmt"

// gemmNEON generates the product of a block for arm64, in tiles as gemm does. A tile has 6 rows of 4 vectors: 24
// accumulators, which leave 6 registers for A and 2 for the vectors of B in turn. A is read in place: 4 terms of a row
// at a time or, if A is transposed, one term of all rows, and multiplied by element.
func gemmNEON(file *armFile) {
	c := file.function("gemm", neonISA)
	g := gemmNeon{neon: c, m: c.arg("m"), aRow: c.arg("a"), rs: c.bytes("rs"), cs: c.bytes("cs"), bs: c.bytes("bs"),
		cRow: c.arg("c"), ldc: c.bytes("ldc"), bPanel: c.x(), cTile: c.x(), bias: c.x(), n: c.x(), b: c.x(), k: c.x(),
		t: c.x()}
	for range gemmNeonRows[0] {
		g.a = append(g.a, c.x())
	}
	for i, rows := range gemmNeonRows {
		next := "end"
		if i < len(gemmNeonRows)-1 {
			next = fmt.Sprintf("rows%d", gemmNeonRows[i+1])
		}
		c.label(fmt.Sprintf("rows%d", rows))
		c.ifLess(g.m, rows, next)
		g.strip(rows)
		c.addImm(g.m, g.m, -rows)
		c.jump(fmt.Sprintf("rows%d", rows))
	}
	c.label("end")
	c.end()
}

// gemmNeonRows lists the heights of tiles. If fewer than 6 rows are left, the smaller heights follow in turn.
var gemmNeonRows = []int{6, 4, 2, 1}

// gemmNeon holds the registers of gemm. Strides are in bytes.
type gemmNeon struct {
	*neon
	m             xreg // rows that are left
	aRow, cRow    xreg // first row of the strip
	rs, cs        xreg // strides of A
	bs, ldc       xreg
	bPanel, cTile xreg // start in the tile
	bias          xreg // start in the tile, or near 0
	n             xreg // columns that are left
	a             []xreg
	b, k, t       xreg
}

// strip computes rows of C from aRow and cRow on, and moves both past them.
func (g *gemmNeon) strip(rows int) {
	label := func(s string) string { return fmt.Sprintf("%s_%d", s, rows) }
	g.argInto("b", g.bPanel)
	g.argInto("bias", g.bias)
	g.argInto("n", g.n)
	g.mov(g.cTile, g.cRow)
	widths := []int{4, 2, 1} // vectors of a tile; fewer columns than one vector come after them
	for i, vecs := range widths {
		next := label("few")
		if i < len(widths)-1 {
			next = label(fmt.Sprintf("vecs%d", widths[i+1]))
		}
		g.label(label(fmt.Sprintf("vecs%d", vecs)))
		g.ifLess(g.n, 4*vecs, next)
		g.tile(rows, vecs, false)
		if vecs == 4 { // the next panel
			g.argInto("ps", g.t)
			g.addShifted(g.bPanel, g.bPanel, g.t, 2)
		} else {
			g.addImm(g.bPanel, g.bPanel, 16*vecs)
		}
		g.addImm(g.cTile, g.cTile, 16*vecs)
		g.addImm(g.bias, g.bias, 16*vecs)
		g.addImm(g.n, g.n, -4*vecs)
		g.jump(label(fmt.Sprintf("vecs%d", vecs)))
	}
	g.label(label("few"))
	g.ifZero(g.n, label("done"))
	g.tile(rows, 1, true)
	g.label(label("done"))
	for range rows {
		g.add(g.aRow, g.aRow, g.rs)
		g.add(g.cRow, g.cRow, g.ldc)
	}
}

// tile computes rows x vecs vectors of C, or the first n%4 columns of one vector.
func (g *gemmNeon) tile(rows, vecs int, few bool) {
	prefix := fmt.Sprintf("tile%dx%d", rows, vecs)
	if few {
		prefix += "_few"
	}
	acc := func(i, v int) vreg { return vreg(i*vecs + v) }
	firstA := vreg(rows * vecs)
	firstB, forB := firstA+vreg(rows), min(32-rows*vecs-rows, 8)
	next := 0
	loadB := func(v int) vreg { // into the next register for B
		r := firstB + vreg(next%forB)
		next++
		if few {
			g.loadFew(r, g.n, g.b, g.t)
		} else {
			g.load(whole, r, g.b, 16*v)
		}
		return r
	}
	// term adds a term to the sums. Row i has it in element at(i) of a(i).
	term := func(a func(i int) vreg, at func(i int) int) {
		for v := range vecs {
			b := loadB(v)
			for i := range rows {
				g.e(fmlaE, acc(i, v), b, a(i), at(i))
			}
		}
		g.add(g.b, g.b, g.bs)
	}
	g.comment("%d rows, %d vectors", rows, vecs)
	for i := range rows * vecs {
		g.zero(vreg(i))
	}
	g.mov(g.b, g.bPanel)
	g.argInto("k", g.k)
	g.mov(g.a[0], g.aRow)
	g.addImm(g.t, g.cs, -4)
	columns, sums := prefix+"_columns", prefix+"_sums"
	if rows > 1 {
		for i := range rows - 1 {
			g.add(g.a[i+1], g.a[i], g.rs)
		}
	}
	g.both(fmt.Sprintf("CBNZ %v, %s", g.t, columns), "")

	rowA := func(i int) vreg { return firstA + vreg(i) }
	g.ifLess(g.k, 4, prefix+"_rest")
	l := armLoop{name: fmt.Sprintf("gemm, %d rows", rows), work: rows * vecs * 16, unit: "multiply-adds",
		bytes: 64*vecs + 16*rows, instructions: []string{"fmla"}}
	if vecs < 4 || few {
		l.name = ""
	}
	g.loop(prefix+"_loop", l, func() {
		for i := range rows {
			g.loadNext(whole, rowA(i), g.a[i])
		}
		for term4 := range 4 {
			term(rowA, func(int) int { return term4 })
		}
		g.whileLeast(g.k, 4, prefix+"_loop")
	})
	g.label(prefix + "_rest")
	g.ifZero(g.k, sums)
	for i := range rows {
		g.loadNext(oneF, rowA(i), g.a[i])
	}
	term(rowA, func(int) int { return 0 })
	g.addImm(g.k, g.k, -1)
	g.jump(prefix + "_rest")

	g.label(columns)
	for i := 0; i < rows; i += 4 {
		p := map[int]part{1: oneF, 2: twoFs}[rows-i]
		if p.bytes == 0 {
			p = whole
		}
		g.load(p, firstA+vreg(i/4), g.a[0], 4*i)
	}
	g.add(g.a[0], g.a[0], g.cs)
	term(func(i int) vreg { return firstA + vreg(i/4) }, func(i int) int { return i % 4 })
	g.subtract(g.k, 1, columns)

	g.label(sums)
	g.argInto("bias", g.t)
	g.ifZero(g.t, prefix+"_add")
	x := firstA // A is no longer needed
	for v := range vecs {
		if few {
			g.loadFew(x, g.n, g.bias, g.t)
		} else {
			g.load(whole, x, g.bias, 16*v)
		}
		for i := range rows {
			g.v(faddV, acc(i, v), acc(i, v), x)
		}
	}
	g.label(prefix + "_add")
	g.argInto("add", g.k)
	g.mov(g.b, g.cTile)
	for i := range rows {
		kept := g.fresh("kept")
		g.ifZero(g.k, kept)
		for v := range vecs {
			if few {
				g.loadFew(x, g.n, g.b, g.t)
			} else {
				g.load(whole, x, g.b, 16*v)
			}
			g.v(faddV, acc(i, v), acc(i, v), x)
		}
		g.label(kept)
		for v := range vecs {
			if few {
				g.storeFew(acc(i, v), g.n, g.b, g.t)
			} else {
				g.store(whole, acc(i, v), g.b, 16*v)
			}
		}
		if i < rows-1 {
			g.add(g.b, g.b, g.ldc)
		}
	}
}
