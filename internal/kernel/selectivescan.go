package kernel

// The selective scan of Mamba (arXiv:2312.00752, algorithm 2), for n states of each channel:
//
//	h[t] = exp(Δ[t]·A)·h[t-1] + Δ[t]·u[t]·B[t],   y[t] = Σ_n C[t]·h[t] + D·u[t]
//
// with A ≤ 0 for each channel and state, Δ and u for each channel and position, and B and C for each state and
// position, which all channels of a group share. Channels lie side by side in lanes.

// ScanLanes holds up to Lanes channels of a group during a scan.
type ScanLanes struct {
	N, Width int
	// [N][4][Lanes]: A, the state h, and in the backward the gradients of h and of A; unused lanes are zero
	X        []float32
	D, DGrad [Lanes]float32 // the skip and its gradient
}

// Offsets in ScanLanes.X, and in the work of Steps.
const (
	scanA     = 0
	scanH     = Lanes
	scanHGrad = 2 * Lanes
	scanAGrad = 3 * Lanes
	// ScanStride is the number of floats of one state in ScanLanes.X, and of one state at one position in the work.
	ScanStride = 4 * Lanes

	stepH     = 0 // before the step
	stepDecay = Lanes
	stepBGrad = 2 * Lanes // lane by lane: the sum over all lanes of the group is the gradient
	stepCGrad = 3 * Lanes
)

// ScanRows holds the sequences of the channels and their group, from one position on. Positions of channels are Step
// floats apart, positions of B and C Stride.
type ScanRows struct {
	U, Delta []float32
	Step     int
	B, C     []float32
	Stride   int
}

// from returns the rows from position t on.
func (r ScanRows) from(t int) ScanRows {
	r.U, r.Delta, r.B, r.C = r.U[t*r.Step:], r.Delta[t*r.Step:], r.B[t*r.Stride:], r.C[t*r.Stride:]
	return r
}

// Load sets the lanes from a (width, n), the A of its channels, h (width, n), their state, which may be nil for zeros,
// and d (width), their skip. It clears the gradients.
func (s *ScanLanes) Load(a, h, d []float32, n, width int) {
	s.N, s.Width = n, width
	clear(s.X)
	s.D, s.DGrad = [Lanes]float32{}, [Lanes]float32{}
	copy(s.D[:width], d)
	s.Put(scanA, a)
	if h != nil {
		s.Put(scanH, h)
	}
}

// Put sets one of the parts of X from x (width, n).
func (s *ScanLanes) Put(part int, x []float32) {
	for v := range s.Width {
		for i, a := range x[v*s.N:][:s.N] {
			s.X[i*ScanStride+part+v] = a
		}
	}
}

// get is the inverse of Put. If add is true, it adds to x.
func (s *ScanLanes) get(x []float32, part int, add bool) {
	for v := range s.Width {
		row := x[v*s.N:][:s.N]
		for i := range row {
			if add {
				row[i] += s.X[i*ScanStride+part+v]
			} else {
				row[i] = s.X[i*ScanStride+part+v]
			}
		}
	}
}

// State copies the state to h (width, n).
func (s *ScanLanes) State(h []float32) { s.get(h, scanH, false) }

// SetStateGrad sets the gradient of the state after the last position of the next Back from g (width, n).
func (s *ScanLanes) SetStateGrad(g []float32) { s.Put(scanHGrad, g) }

// AddStateGrad adds the gradient of the state before the first position of the last Back to g (width, n).
func (s *ScanLanes) AddStateGrad(g []float32) { s.get(g, scanHGrad, true) }

// AddAGrad adds the gradient of A to g (width, n).
func (s *ScanLanes) AddAGrad(g []float32) { s.get(g, scanAGrad, true) }

// Save copies the state lane by lane to x [N][Lanes], for example at the border of a chunk. Restore copies it back.
func (s *ScanLanes) Save(x []float32) {
	for i := range s.N {
		copy(x[i*Lanes:][:Lanes], s.X[i*ScanStride+scanH:])
	}
}

// Restore is the inverse of Save.
func (s *ScanLanes) Restore(x []float32) {
	for i := range s.N {
		copy(s.X[i*ScanStride+scanH:][:Lanes], x[i*Lanes:][:Lanes])
	}
}

// scanWork is the largest number of steps of states in a call of assembly: about 50 µs.
const scanWork = 1 << 18

// rowsACall returns the largest number of positions in a call of assembly.
func (s *ScanLanes) rowsACall() int { return max(1, scanWork/(s.N*Lanes)) }

// lanesAtOnce returns the number of channels that a call of assembly processes.
func lanesAtOnce() int {
	if cpu.narrow() {
		return Lanes / 2
	}
	return Lanes
}

// Scan advances the channels by rows positions and writes y, laid out like U.
func (s *ScanLanes) Scan(y []float32, r ScanRows, rows int) {
	if !cpu.has(scanCode) {
		s.scan(y, r, rows)
		return
	}
	_, _ = y[(rows-1)*r.Step:][:s.Width], r.U[(rows-1)*r.Step:][:s.Width]
	_, _ = r.Delta[(rows-1)*r.Step:][:s.Width], r.B[(rows-1)*r.Stride:][:s.N]
	_, _ = r.C[(rows-1)*r.Stride:][:s.N], s.X[:s.N*ScanStride]
	for v := 0; v < s.Width; v += lanesAtOnce() {
		for t := 0; t < rows; t += s.rowsACall() {
			q := r.from(t)
			vecScan(min(s.rowsACall(), rows-t), s.N, min(lanesAtOnce(), s.Width-v),
				&y[t*r.Step+v], &q.U[v], &q.Delta[v], r.Step,
				&q.B[0], &q.C[0], r.Stride, &s.D[v], &s.X[v])
		}
	}
}

// scan is the portable Scan.
func (s *ScanLanes) scan(y []float32, r ScanRows, rows int) {
	for t := range rows {
		u, delta, y := r.U[t*r.Step:][:s.Width], r.Delta[t*r.Step:][:s.Width], y[t*r.Step:][:s.Width]
		for v := range y {
			y[v] = s.D[v] * u[v]
		}
		for i := range s.N {
			x := s.X[i*ScanStride:][:ScanStride]
			b, c := r.B[t*r.Stride+i], r.C[t*r.Stride+i]
			for v, dt := range delta {
				h := float32(Exp(dt*x[scanA+v])*x[scanH+v]) + float32(dt*u[v]*b)
				x[scanH+v] = h
				y[v] += float32(c * h)
			}
		}
	}
}

// Steps advances the channels by rows positions like Scan, and stores the values that Back needs in work
// [rows][N][4][Lanes]: the states before each step and the decays. It keeps the gradients of B and C that earlier
// channels have left there.
func (s *ScanLanes) Steps(work []float32, r ScanRows, rows int) {
	if !cpu.has(scanStepsCode) {
		s.steps(work, r, rows)
		return
	}
	_, _ = r.U[(rows-1)*r.Step:][:s.Width], r.Delta[(rows-1)*r.Step:][:s.Width]
	_, _, _ = r.B[(rows-1)*r.Stride:][:s.N], s.X[:s.N*ScanStride], work[:rows*s.N*ScanStride]
	for v := 0; v < s.Width; v += lanesAtOnce() {
		for t := 0; t < rows; t += s.rowsACall() {
			q := r.from(t)
			vecScanSteps(min(s.rowsACall(), rows-t), s.N, min(lanesAtOnce(), s.Width-v),
				&work[t*s.N*ScanStride+v], &q.U[v], &q.Delta[v],
				r.Step, &q.B[0], r.Stride, &s.X[v])
		}
	}
}

// steps is the portable Steps.
func (s *ScanLanes) steps(work []float32, r ScanRows, rows int) {
	for t := range rows {
		u, delta := r.U[t*r.Step:][:s.Width], r.Delta[t*r.Step:][:s.Width]
		for i := range s.N {
			x, w := s.X[i*ScanStride:][:ScanStride], work[(t*s.N+i)*ScanStride:][:ScanStride]
			b := r.B[t*r.Stride+i]
			for v, dt := range delta {
				decay := Exp(dt * x[scanA+v])
				w[stepH+v], w[stepDecay+v] = x[scanH+v], decay
				x[scanH+v] = float32(decay*x[scanH+v]) + float32(dt*u[v]*b)
			}
		}
	}
}

// Back is the backward pass of Steps over the same rows positions. It adds to du and dDelta, laid out like U, as is dy,
// to the gradients of A and D in s, and lane by lane to the gradients of B and C in work. The gradient of the state
// moves to the first position.
func (s *ScanLanes) Back(du, dDelta, dy, work []float32, r ScanRows, rows int) {
	if !cpu.has(scanBackCode) {
		s.back(du, dDelta, dy, work, r, rows)
		return
	}
	last := (rows - 1) * r.Step
	_, _, _ = du[last:][:s.Width], dDelta[last:][:s.Width], dy[last:][:s.Width]
	_, _, _ = r.U[last:][:s.Width], r.Delta[last:][:s.Width], r.B[(rows-1)*r.Stride:][:s.N]
	_, _, _ = r.C[(rows-1)*r.Stride:][:s.N], s.X[:s.N*ScanStride], work[:rows*s.N*ScanStride]
	for v := 0; v < s.Width; v += lanesAtOnce() {
		for end := rows; end > 0; end -= min(end, s.rowsACall()) {
			n := min(end, s.rowsACall())
			t := end - n
			q := r.from(t)
			at := t*r.Step + v
			vecScanBack(n, s.N, min(lanesAtOnce(), s.Width-v), &du[at], &dDelta[at],
				&dy[at], &q.U[v], &q.Delta[v], r.Step,
				&q.B[0], &q.C[0], r.Stride, &s.D[v], &s.DGrad[v], &s.X[v], &work[t*s.N*ScanStride+v])
		}
	}
}

// back is the portable Back.
func (s *ScanLanes) back(du, dDelta, dy, work []float32, r ScanRows, rows int) {
	for t := rows - 1; t >= 0; t-- {
		at := t * r.Step
		u, delta, dy := r.U[at:][:s.Width], r.Delta[at:][:s.Width], dy[at:][:s.Width]
		du, dDelta := du[at:][:s.Width], dDelta[at:][:s.Width]
		for v, dt := range delta {
			var dIn, dDt float32 // the gradients of Δ·u, and of Δ through the decay
			for i := range s.N {
				x, w := s.X[i*ScanStride:][:ScanStride], work[(t*s.N+i)*ScanStride:][:ScanStride]
				b, c := r.B[t*r.Stride+i], r.C[t*r.Stride+i]
				h := float32(w[stepDecay+v]*w[stepH+v]) + float32(dt*u[v]*b)
				g := x[scanHGrad+v] + float32(dy[v]*c)
				w[stepCGrad+v] += float32(dy[v] * h)
				w[stepBGrad+v] += float32(g * dt * u[v])
				dIn += float32(g * b)
				g *= w[stepDecay+v]
				x[scanHGrad+v] = g
				dDecay := float32(g * w[stepH+v])
				dDt += float32(dDecay * x[scanA+v])
				x[scanAGrad+v] += float32(dDecay * dt)
			}
			du[v] += float32(dIn*dt) + float32(dy[v]*s.D[v])
			dDelta[v] += float32(dIn*u[v]) + dDt
			s.DGrad[v] += float32(dy[v] * u[v])
		}
	}
}

// ScanSums adds to db and dc, the gradients of B and C, whose positions are stride floats apart, the sums over the
// lanes of the work of one group over rows positions.
func ScanSums(db, dc, work []float32, stride, n, rows int) {
	for t := range rows {
		db, dc := db[t*stride:][:n], dc[t*stride:][:n]
		for i := range n {
			w := work[(t*n+i)*ScanStride:][:ScanStride]
			db[i] += sumLanes(w[stepBGrad:])
			dc[i] += sumLanes(w[stepCGrad:])
		}
	}
}

// sumLanes adds one half to the other until one element is left.
func sumLanes(x []float32) float32 {
	x = x[:Lanes]
	a, b, c, d := x[0]+x[8], x[1]+x[9], x[2]+x[10], x[3]+x[11]
	e, f, g, h := x[4]+x[12], x[5]+x[13], x[6]+x[14], x[7]+x[15]
	return ((a + e) + (c + g)) + ((b + f) + (d + h))
}

// ScanStep steps d channels, which share B and C (n), by one position. It updates h (d, n) and sets y (d). a is (d, n).
func ScanStep(y, h, a, u, delta, b, c, skip []float32) {
	d, n := len(y), len(b)
	u, delta, skip, h, a, c = u[:d], delta[:d], skip[:d], h[:d*n], a[:d*n], c[:n]
	if cpu.has(scanStepCode) && n > 0 {
		part := max(1, scanWork/max(n, Lanes))
		for v := 0; v < d; v += part {
			vecScanStep(min(part, d-v), n, &y[v], &h[v*n], &a[v*n], &u[v], &delta[v], &b[0], &c[0], &skip[v])
		}
		return
	}
	for v, dt := range delta {
		sum := float32(0)
		for i, x := range h[v*n:][:n] {
			x = float32(Exp(dt*a[v*n+i])*x) + float32(dt*u[v]*b[i])
			h[v*n+i] = x
			sum += float32(c[i] * x)
		}
		y[v] = sum + float32(skip[v]*u[v])
	}
}
