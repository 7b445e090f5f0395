package cpu

import (
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
)

// step steps the states of short rows in place, position by position.
func (o *deltaOp) step() {
	parallel.For(len(o.steps)*o.Heads, max(1, grain/(o.dk*o.dv)), func(lo, hi int) {
		k := deltaStep{deltaOp: o, memory: getFloats(3*o.dk + o.dv)}
		defer putFloats(k.memory)
		f := floats(*k.memory)
		k.decay, k.a, k.b, k.x = f.take(o.dk), f.take(o.dk), f.take(o.dk), f.take(o.dv)
		for i := lo; i < hi; i++ {
			row, h := o.steps[i/o.Heads], i%o.Heads
			state := o.stateOf(o.after[row].Data(), h)
			for t := o.rows.From(row); t < o.rows.From(row)+o.rows.Len(row); t++ {
				k.at(t, h, state)
			}
		}
	})
}

// deltaStep is the memory of a task that steps.
type deltaStep struct {
	*deltaOp
	memory   *[]float32
	decay    []float32 // e^g, one number or dk
	a, b     []float32
	x        []float32
	forgets  bool // a decay is 0
	numbered bool
}

// at steps s, the state of head h, by position t.
func (k *deltaStep) at(t, h int, s []float32) {
	dk, dv := k.dk, k.dv
	key := (t*k.KeyHeads + k.KeyHead(h)) * dk
	q, key1 := k.Q.Data()[key:][:dk], k.K.Data()[key:][:dk]
	v, y := k.V.Data()[(t*k.Heads+h)*dv:][:dv], k.y.Data()[(t*k.Heads+h)*dv:][:dv]
	k.decays(t, h)
	if !k.free() {
		k.forget(s)
	}
	switch {
	case k.free():
		at := (t*k.Heads + h) * dk
		kernel.RowSums(dk, dv, s, dv, k.B.Data()[at:][:dk], k.x, false)
		k.forget(s)
		kernel.DeltaStep(y, s, k.decay, key1, v, q)
		kernel.DeltaStep(y, s, nil, k.A.Data()[at:][:dk], k.x, q)
	case k.Beta != nil: // x = v - S'ᵀ·k
		copy(k.b, key1)
		if len(k.decay) == 1 {
			kernel.Scale(k.b, k.decay[0])
		} else {
			kernel.Mul(k.b, k.decay)
		}
		kernel.RowSums(dk, dv, s, dv, k.b, k.x, false)
		kernel.Scale(k.x, -1)
		kernel.Add(k.x, v)
		copy(k.a, key1)
		kernel.Scale(k.a, k.Beta.Data()[t*k.Heads+h])
		kernel.DeltaStep(y, s, k.decay, k.a, k.x, q)
	default:
		kernel.DeltaStep(y, s, k.decay, key1, v, q)
	}
}

// decays computes e^g.
func (k *deltaStep) decays(t, h int) {
	n := 1
	if k.ByRow() {
		n = k.dk
	}
	k.decay = k.decay[:n]
	copy(k.decay, k.G.Data()[(t*k.Heads+h)*n:])
	kernel.ExpShift(k.decay, 0, 1)
	k.forgets = false
	for _, d := range k.decay {
		k.forgets = k.forgets || d == 0
	}
}

// forget clears the rows of s whose decay is 0: there may be what is not finite.
func (k *deltaStep) forget(s []float32) {
	if !k.forgets {
		return
	}
	for i := range k.dk {
		if k.decay[i*(len(k.decay)-1)/max(1, k.dk-1)] == 0 {
			clear(s[i*k.dv:][:k.dv])
		}
	}
}
