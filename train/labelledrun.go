package train

import (
	"context"
	"path/filepath"

	"github.com/hippo-ssm/hippo/model"
)

// Train runs the loop that OpenLabelled returned, and adds a note if the training diverged.
func (w *Labelled) Train(ctx context.Context, l *Training) (interrupted bool, err error) {
	interrupted, err = l.Run(ctx)
	if err != nil || interrupted {
		return interrupted, err
	}
	if err := l.Diverged(l.final.Loss); err != nil { // the score says so, too
		l.Note(err.Error())
	}
	return false, nil
}

// KeepAsBest writes the network as it is now in the place of the one that did best: the same weights, of which more is
// known, such as how wide its intervals have to be.
func (w *Labelled) KeepAsBest() error {
	return writeModel(filepath.Join(w.Config.Out, model.BestDir), w)
}
