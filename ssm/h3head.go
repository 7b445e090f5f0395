package ssm

import "gonum.org/v1/gonum/floats"

// H3 is one head of the H3 layer, with p channels. Each channel has its own shift SSM; the channels share the diagonal
// SSM of the head:
//
//	key_t = SSM_shift(k)_t + ShiftD k_t      (p)
//	kv_t  = key_t v_tᵀ                       (p, p): what is written
//	m_t   = SSM_diag(kv)_t + D kv_t          (p, p): the memory, every entry through the same SSM
//	y_t   = m_tᵀ q_t                         (p):    what is read
//
// q, k and v (l, p) are linear in the layer's input, and its output is linear in the y of all heads. H3,
// arXiv:2212.14052, §3.1 and algorithm 1.
type H3 struct {
	Shift  []*Shift  // for each channel (p)
	ShiftD []float64 // skips of the shifts (p), or nil
	Diag   *Diagonal
	D      float64 // skip of Diag
	Method Method  // for sampling Diag
}

// H3Step holds the intermediate results of a head of [H3] at one position.
type H3Step struct {
	Key    []float64   // (p)
	Write  [][]float64 // kv_t (p, p): row i and column j is key i times value j
	Memory [][]float64 // m_t (p, p)
	Y      []float64   // (p)
}

// Steps returns the intermediate results at every position of q, k and v (l, p), starting from states of zero.
func (h *H3) Steps(q, k, v [][]float64) []H3Step {
	if len(q) == 0 {
		return nil
	}
	p := len(q[0])
	square := func() [][]float64 {
		m := make([][]float64, p)
		for i := range m {
			m[i] = make([]float64, p)
		}
		return m
	}
	steps := make([]H3Step, len(q))
	for t := range steps {
		steps[t] = H3Step{Key: make([]float64, p), Write: square(), Memory: square(), Y: make([]float64, p)}
	}
	signal := make([]float64, len(q))
	for i := range p {
		for t := range signal {
			signal[t] = k[t][i]
		}
		for t, key := range h.Shift[i].Scan(nil, signal) {
			steps[t].Key[i] = key
			if h.ShiftD != nil {
				steps[t].Key[i] += h.ShiftD[i] * signal[t]
			}
		}
		for j := range p {
			for t := range signal {
				signal[t] = steps[t].Key[i] * v[t][j]
				steps[t].Write[i][j] = signal[t]
			}
			for t, m := range h.Diag.Scan(h.Method, nil, signal) {
				steps[t].Memory[i][j] = m + h.D*signal[t]
			}
		}
	}
	for t, s := range steps {
		for i, row := range s.Memory {
			floats.AddScaled(s.Y, q[t][i], row)
		}
	}
	return steps
}

// Recaller returns a head of [H3] with p channels that recalls: its keys are those of the previous position, and what
// it writes remains. With one-hot q, k and v of p tokens, y_t counts for every token how often it has followed the
// token of position t. With decay > 0, a pair that was written a steps ago counts as exp(-decay a). H3,
// arXiv:2212.14052, §3.1.
func Recaller(p int, decay float64) *H3 {
	h := &H3{
		Diag: &Diagonal{A: []complex128{complex(-decay, 0)}, B: []complex128{holdOne(decay)}, C: []complex128{1},
			Dt: 1},
		Method: ZOH,
	}
	for range p {
		h.Shift = append(h.Shift, &Shift{B: []float64{1, 0}, C: []float64{0, 1}})
	}
	return h
}

// holdOne returns the B of a mode -decay for which Bbar is 1 with a step of 1 and zero-order hold.
func holdOne(decay float64) complex128 {
	if decay == 0 {
		return 1
	}
	return complex(-decay, 0) / expm1(complex(-decay, 0))
}
