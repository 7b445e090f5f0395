package train

import (
	"fmt"
	"math"
)

// Limits for judging the losses of a run, in nats per token.
const (
	Diverging = 1    // above guessing; a new model is hardly above it
	rising    = 0.05 // above the best; evaluations of one model differ by less
)

// DivergedError reports that a run has made all its steps, but its training loss is far above that of guessing and, if
// it started from a model's weights, above the loss of that model.
type DivergedError struct {
	Loss, Guess float64 // the training loss, and that of guessing all tokens with equal probability
	Began       float64 // the loss of the model that the run started from if that is above guessing, else 0
	LR          float64 // peak learning rate
	Best        float64 // the best validation loss
	BestStep    int
}

// Error returns how far the loss is off and which settings may help.
func (e *DivergedError) Error() string {
	best := "there is no checkpoint worth keeping"
	if e.Best < e.Guess {
		best = fmt.Sprintf("the best checkpoint, of step %d, has a validation loss of %.4f", e.BestStep, e.Best)
	}
	began := ""
	if e.Began > 0 {
		began = fmt.Sprintf(", before the first update it was %.4g", e.Began)
	}
	return fmt.Sprintf("the training diverged: its loss is %.4g nats per token, that of guessing %.4g%s; "+
		"want a smaller optim.lr (found %g), a longer optim.warmup or a smaller optim.clip; %s", e.Loss, e.Guess, began,
		e.LR, best)
}

// Far reports whether a training loss is far above that of guessing and that of the model that the run started from.
func (l *Training) Far(loss float64) bool { return loss > max(l.work.Guess(), l.Began())+Diverging }

// Began returns the loss of the model that the run started from if that is above guessing, as on a text that is far
// from what it has learnt. Else it returns 0.
func (l *Training) Began() float64 {
	if p := l.history.Points; len(p) > 0 && p[0].Step == 0 && p[0].Valid.Loss > l.work.Guess() {
		return p[0].Valid.Loss
	}
	return 0
}

// Diverged returns a *DivergedError if the training diverged. best is the loss of the best checkpoint.
func (l *Training) Diverged(best float64) error {
	loss := l.TrainLoss()
	if !l.Far(loss) {
		return nil
	}
	e := &DivergedError{Loss: loss, Guess: l.work.Guess(), Began: l.Began(), LR: l.Plan.Optim.LR, Best: best}
	if p, ok := l.BestPoint(); ok {
		e.BestStep = p.Step
	}
	return e
}

// warn writes a note, once, as soon as the training diverges.
func (l *Training) warn() {
	if l.warned || !l.Far(l.smoothed) {
		return
	}
	l.warned = true
	l.Note(fmt.Sprintf("step %d: the training loss, %.4g, is far above that of guessing, %.4g: "+
		"the training diverges; a smaller optim.lr (now %g), a longer optim.warmup or a smaller optim.clip may help",
		l.step, l.smoothed, l.work.Guess(), l.Plan.Optim.LR))
}

// noteOverfitting writes a note, once, if the validation loss rises during the run while the training loss falls.
func (l *Training) noteOverfitting(valid float64, best Point, last bool) {
	if last || l.overfit || !l.Overfits(valid, best.Valid.Loss) {
		return
	}
	l.overfit = true
	l.Note(fmt.Sprintf("step %d: the validation loss rises, from %.4f at step %d to %.4f, while the training loss, "+
		"%.4f, falls: the model overfits", l.step, best.Valid.Loss, best.Step, valid, l.smoothed))
}

// Overfits reports whether a validation loss, in nats, is above the best while the training loss is below the best.
func (l *Training) Overfits(valid, best float64) bool {
	return isFinite(l.work.Guess()) && valid > best+rising && l.TrainLoss() < best
}

// TrainLoss returns the smoothed training loss, also for a run that was resumed after its last step.
func (l *Training) TrainLoss() float64 {
	if n := len(l.history.Curve.Loss); math.IsNaN(l.smoothed) && n > 0 {
		return l.history.Curve.Loss[n-1]
	}
	return l.smoothed
}
