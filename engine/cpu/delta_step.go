package cpu

import (
	"slices"

	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
)

// step computes short rows position by position, and updates their states in place.
func (o *deltaOp) step() {
	parallel.For(len(o.steps)*o.Heads, max(1, grain/(o.dk*o.dv)), func(lo, hi int) {
		k := o.stepper()
		defer putFloats(k.memory)
		for i := lo; i < hi; i++ {
			row, h := o.steps[i/o.Heads], i%o.Heads
			k.row(row, h, o.stateOf(o.after[row].Data(), h))
		}
	})
}

// stepRow computes a row of a head by steps from s, the state before it, which it updates.
func (o *deltaOp) stepRow(row, h int, s []float32) {
	k := o.stepper()
	defer putFloats(k.memory)
	k.row(row, h, s)
}

// row steps s, the state of head h, through a row.
func (k *deltaStep) row(row, h int, s []float32) {
	for t := k.rows.From(row); t < k.rows.From(row)+k.rows.Len(row); t++ {
		k.at(t, h, s)
		if k.deltaOp.x != nil {
			copy(k.kept(h, t), k.x)
		}
	}
}

// deltaStep is the memory of a task that steps.
type deltaStep struct {
	*deltaOp
	memory      *[]float32
	decay, a, b []float32 // (dk)
	x           []float32 // (dv)
}

func (o *deltaOp) stepper() deltaStep {
	k := deltaStep{deltaOp: o, memory: getFloats(3*o.dk + o.dv)}
	f := floats(*k.memory)
	k.decay, k.a, k.b, k.x = f.take(o.dk), f.take(o.dk), f.take(o.dk), f.take(o.dv)
	return k
}

// at updates s, the state of head h, with position t.
func (k *deltaStep) at(t, h int, s []float32) {
	dk, dv, key, head := k.dk, k.dv, t*k.KeyHeads+k.KeyHead(h), t*k.Heads+h
	q, keys := k.Q.Data()[key*dk:][:dk], k.K.Data()[key*dk:][:dk]
	v, y := k.V.Data()[head*dv:][:dv], k.y.Data()[head*dv:][:dv]
	forgets := k.decays(head)
	switch {
	case k.free():
		kernel.RowSums(dk, dv, s, dv, k.B.Data()[head*dk:][:dk], k.x, false)
		if forgets {
			k.forget(s)
		}
		kernel.DeltaStep(y, s, k.decay, q, k.A.Data()[head*dk:][:dk], k.x, keys, v)
	case k.Beta != nil: // x = v - (D·S)ᵀ·k
		if forgets {
			k.forget(s)
		}
		kernel.MulInto(k.b, k.decay, keys)
		kernel.RowSums(dk, dv, s, dv, k.b, k.x, false)
		kernel.Scale(k.x, -1)
		kernel.Add(k.x, v)
		copy(k.a, keys)
		kernel.Scale(k.a, k.Beta.Data()[head])
		kernel.DeltaStep(y, s, k.decay, q, k.a, k.x, nil, nil)
	default:
		if forgets {
			k.forget(s)
		}
		kernel.DeltaStep(y, s, k.decay, q, keys, v, nil, nil)
	}
}

// decays computes e^g of a head at a position, and reports whether one of them is 0.
func (k *deltaStep) decays(head int) (forgets bool) {
	if k.ByRow() {
		copy(k.decay, k.G.Data()[head*k.dk:])
	} else {
		fill(k.decay, k.G.Data()[head])
	}
	kernel.ExpShift(k.decay, 0, 1)
	dropLeast(k.decay)
	return slices.Contains(k.decay, 0)
}

// forget clears the rows of s whose decay is 0: they may hold values that are not finite.
func (k *deltaStep) forget(s []float32) {
	for i, d := range k.decay {
		if d == 0 {
			clear(s[i*k.dv:][:k.dv])
		}
	}
}
