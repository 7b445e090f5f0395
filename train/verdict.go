package train

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
)

// What the losses of a run, in nats per token, are judged by.
const (
	diverging = 1    // above guessing: a model that starts is hardly above it
	rising    = 0.05 // above the best: more than evaluations of one model differ
)

// DivergedError says that a run has made all its steps, but that its training loss is far above that of guessing.
type DivergedError struct {
	Loss, Guess float64 // the training loss, and that of guessing all tokens alike
	LR          float64 // peak learning rate
	Best        float64 // the best validation loss
	BestStep    int
}

// Error says how far the loss is off, and which settings may help.
func (e *DivergedError) Error() string {
	best := "there is no checkpoint worth keeping"
	if e.Best < e.Guess {
		best = fmt.Sprintf("the best checkpoint, of step %d, has a validation loss of %.4f", e.BestStep, e.Best)
	}
	return fmt.Sprintf("the training diverged: its loss is %.4g nats per token, that of guessing %.4g; want a "+
		"smaller optim.lr (found %g), a longer "+
		"optim.warmup or a smaller optim.clip; %s", e.Loss, e.Guess, e.LR, best)
}

// guess is the loss of a model that holds all tokens for equally probable.
func (tr *Trainer) guess() float64 { return math.Log(float64(tr.Config.Model.PaddedVocab())) }

// wholeText reports whether evaluations on the way take all of the validation text.
func (tr *Trainer) wholeText() bool { return tr.Config.Train.EvalTokens+1 >= tr.Data.Valid.Len() }

// bestOnAll is the loss of the best checkpoint on all validation text, +Inf where there is none.
func (tr *Trainer) bestOnAll(ctx context.Context) (float64, error) {
	if tr.wholeText() || math.IsInf(tr.best, 1) {
		return tr.best, nil
	}
	best, _, err := release.LoadDir(filepath.Join(tr.Config.Out, model.BestDir))
	if errors.Is(err, fs.ErrNotExist) {
		return math.Inf(1), nil
	}
	if err != nil {
		return 0, err
	}
	r, err := Evaluate(ctx, best, tr.Data.Valid, EvalOptions{SeqLen: tr.Config.Train.SeqLen,
		BatchSize: tr.Config.Train.BatchSize, tape: tr.tape})
	return r.Loss, err
}

// warn tells once, as soon as it is seen, that a run goes wrong.
func (r *runner) warn() {
	if r.warned || !(r.smoothed > r.guess()+diverging) {
		return
	}
	r.warned = true
	r.note(fmt.Sprintf("step %d: the training loss, %.4g, is far above that of guessing, %.4g: the training "+
		"diverges; a smaller optim.lr (now %g), "+
		"a longer optim.warmup or a smaller optim.clip may help", r.step, r.smoothed, r.guess(), r.Config.Optim.LR))
}

// overfits reports whether a validation loss is above the best while the training loss is below it.
func (r *runner) overfits(valid, best float64) bool {
	return valid > best+rising && r.trainLoss() < best
}

// trainLoss is the training loss, smoothed, also of a run that was resumed after its last step.
func (r *runner) trainLoss() float64 {
	if n := len(r.history.Train); math.IsNaN(r.smoothed) && n > 0 {
		return r.history.Train[n-1]
	}
	return r.smoothed
}

// remarks are what a user should know of how the run ended, and how to mend it.
func (r *runner) remarks(res *Result) []string {
	var all []string
	if r.overfits(res.ValidLoss, res.BestLoss) {
		all = append(all, fmt.Sprintf("the model overfits: its validation loss was lowest, %.4f, at step %d, and is "+
			"%.4f now, while the training loss "+
			"fell to %.4f: it learns the text by heart; generate and eval take the checkpoint of step %d; more "+
			"text, a smaller model, dropout "+
			"(model.resid_dropout) or fewer steps may help", res.BestLoss, res.BestStep, res.ValidLoss, r.trainLoss(),
			res.BestStep))
	}
	unigram, err := data.UnigramLoss(r.Data.Train, r.Data.Valid, r.Config.Model.VocabSize)
	if err == nil && res.BestLoss > unigram && !r.diverged() {
		how := fmt.Sprintf("the model has learnt next to nothing; more steps (train.steps, now %d) or another "+
			"optim.lr (now %g) may help", r.step,
			r.Config.Optim.LR)
		if r.trainLoss() < unigram {
			how = "what it has learnt of the training text does not hold elsewhere; more text, or validation text " +
				"that is more like it, may help"
		}
		all = append(all, fmt.Sprintf("the validation loss, %.4f, is above what counting how often each token "+
			"stands in the text comes to, %.4f: %s",
			res.BestLoss, unigram, how))
	}
	return all
}

func (r *runner) diverged() bool { return r.trainLoss() > r.guess()+diverging }
