package autograd

import "github.com/hippo-ssm/hippo/tensor"

// aside is a loss besides the one that Backward starts from.
type aside struct {
	y      *tensor.Tensor // one element
	weight float64
}

// TakeAside switches Aside on or off. It is off on a new tape, whose gradients are those of the loss alone.
func (t *Tape) TakeAside(on bool) { t.beside = on }

// TakesAside reports whether Aside takes losses.
func (t *Tape) TakesAside() bool { return t.beside && t.step.Recording }

// Aside adds a loss of one element to that of Backward, such as one that balances the load of experts. With n of them
// since Reset the gradients are those of
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

// Asides is the number of losses that Aside has taken since Reset.
func (t *Tape) Asides() int { return len(t.aside) }

// seedAside seeds all that Aside was given, if the loss has the cotangent dy.
func (t *Tape) seedAside(dy float32) {
	for _, a := range t.aside {
		if a.y.NeedsGrad() {
			t.Seed(a.y, t.engine.Full(float32(a.weight/float64(len(t.aside))*float64(dy))))
		}
	}
}
