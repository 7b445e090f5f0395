package autograd

import "github.com/hippo-ssm/hippo/tensor"

// aside is a loss in addition to the one that Backward starts from.
type aside struct {
	y      *tensor.Tensor // one element
	weight float64
}

// TakeAside switches Aside on or off. It is off on a new tape, so that gradients are those of the loss alone.
func (t *Tape) TakeAside(on bool) { t.beside = on }

// TakesAside reports whether Aside adds losses.
func (t *Tape) TakesAside() bool { return t.beside && t.step.Recording }

// Aside adds a loss of one element, such as one that balances the load of experts, to the loss of Backward. With n such
// losses since Reset, the gradients are those of
//
//	loss + Σ weight·y / n
//
// times the cotangent of the loss. It does nothing if TakesAside is false.
func (t *Tape) Aside(y *tensor.Tensor, weight float64) {
	if y.Len() != 1 {
		shapePanic("Aside", y)
	}
	if t.TakesAside() {
		t.aside = append(t.aside, aside{y, weight})
	}
}

// Asides returns the number of losses that Aside has added since Reset.
func (t *Tape) Asides() int { return len(t.aside) }

// seedAside seeds all losses of Aside, given the cotangent dy of the loss.
func (t *Tape) seedAside(dy float32) {
	for _, a := range t.aside {
		if a.y.NeedsGrad() {
			t.Seed(a.y, t.engine.Full(float32(a.weight/float64(len(t.aside))*float64(dy))))
		}
	}
}
