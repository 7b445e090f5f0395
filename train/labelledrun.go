package train

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/hippo-ssm/hippo/model"
)

// Train makes the updates that are left, measures the network after the last of them, and saves. When ctx is done it
// saves where it is and reports interrupted.
func (w *Labelled) Train(ctx context.Context) (interrupted bool, err error) {
	interrupted, err = w.Run(ctx)
	if err == nil && !interrupted {
		if _, err = w.Finish(ctx); err != nil && errors.Is(err, ctx.Err()) {
			interrupted, err = true, w.Save()
		}
	}
	if err != nil || interrupted {
		return interrupted, err
	}
	if err := w.Save(); err != nil {
		return false, err
	}
	best, _ := w.BestPoint()
	if err := w.Diverged(best.Valid.Loss); err != nil { // the score says so, too
		w.Note(err.Error())
	}
	return false, nil
}

// KeepAsBest writes the network as it is now in the place of the one that did best: the same weights, of which more is
// known, such as how wide its intervals have to be.
func (w *Labelled) KeepAsBest() error {
	return writeModel(filepath.Join(w.Config.Out, model.BestDir), w)
}
