package text

import (
	"fmt"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/train"
)

// UselessError reports that a run has made all its steps, but its best model predicts the validation text far worse
// than guessing does, although the training did not diverge.
type UselessError struct {
	Best, Guess float64 // the best validation loss, and that of guessing all tokens with equal probability
	Began       float64 // the validation loss of the model that the run started from if that is above guessing, else 0
}

// Error returns how far the loss is off and a possible reason.
func (e *UselessError) Error() string {
	why := "want validation text that is like the training text"
	if e.Began > 0 {
		why = fmt.Sprintf("the model that it began with had %.4g, "+
			"so look whether it is the one for this text and tokenizer, or train longer", e.Began)
	}
	return fmt.Sprintf("the model is worse than guessing: its best validation loss is %.4g nats per token, "+
		"that of guessing %.4g; %s", e.Best, e.Guess, why)
}

// useless returns a *UselessError if the best model of a run is far worse than guessing and has hardly improved: by
// less than a tenth of the initial distance to guessing. It returns nil for a trial, which is too short to improve.
func (r *run) useless(best float64) error {
	guess := r.work.Guess()
	hardly := 0.9 * (r.loop.Began() - guess)
	if r.work.Config.smoke || !(best > guess+max(train.Diverging, hardly)) {
		return nil
	}
	return &UselessError{Best: best, Guess: guess, Began: r.loop.Began()}
}

// remarks returns messages for the user on problems of a finished run and how to fix them.
func (r *run) remarks(res *Result) []string {
	var all []string
	tr := r.work
	if r.loop.Overfits(res.ValidLoss, res.BestLoss) {
		all = append(all, fmt.Sprintf("the model overfits: its validation loss was lowest, %.4f, at step %d, "+
			"and is %.4f now, while the training loss fell to %.4f: it learns the text by heart; "+
			"generate and eval take the checkpoint of step %d; more text, a smaller model, "+
			"dropout (model.resid_dropout) or fewer steps may help", res.BestLoss, res.BestStep, res.ValidLoss,
			r.loop.TrainLoss(), res.BestStep))
	}
	unigram, err := data.UnigramLoss(tr.Data.Train, tr.Data.Valid, tr.Config.Model.VocabSize)
	if err == nil && !tr.Data.Train.Given() && res.BestLoss > unigram && !r.loop.Far(r.loop.TrainLoss()) {
		how := fmt.Sprintf("the model has learnt next to nothing; more steps (train.steps, "+
			"now %d) or another optim.lr (now %g) may help", res.Step, tr.Config.Optim.LR)
		if r.loop.TrainLoss() < unigram {
			how = "what it has learnt of the training text does not hold elsewhere; more text, " +
				"or validation text that is more like it, may help"
		}
		all = append(all, fmt.Sprintf("the validation loss, %.4f, "+
			"is above what counting how often each token stands in the text comes to, %.4f: %s", res.BestLoss, unigram,
			how))
	}
	return all
}
