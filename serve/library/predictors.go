package library

import (
	"context"
	"os"
	"slices"

	"github.com/hippo-ssm/hippo/fit"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/serve/rows"
)

// openPredictors opens the networks of package fit among Models, and leaves the other models in the list.
func (l *Library) openPredictors() error {
	var others []string
	for _, arg := range l.Models {
		name, path := splitName(arg)
		is, err := model.HasNetwork(path)
		if err != nil {
			return err
		}
		if !is {
			others = append(others, arg)
			continue
		}
		p, err := predictor(name, path)
		if err != nil {
			return err
		}
		if l.isPredictor(name) {
			return errSameName(arg, name)
		}
		l.Predictors = append(l.Predictors, p)
	}
	l.Models = others
	return nil
}

// predictor opens the network in a folder.
func predictor(name, path string) (p rows.Predictor, err error) {
	m, err := fit.Open(path)
	if err != nil {
		return p, err
	}
	card := m.Plan().Card()
	p = rows.Predictor{
		Name: name, About: card, Streams: card.Streams,
		Answer: func(ctx context.Context, q rows.Query) error { return m.Answer(ctx, fit.Query(q)) },
	}
	if info, err := os.Stat(path); err == nil {
		p.Made = info.ModTime()
	}
	return p, nil
}

// isPredictor reports whether there is a predictor with the given name.
func (l *Library) isPredictor(name string) bool {
	return slices.ContainsFunc(l.Predictors, func(p rows.Predictor) bool { return p.Name == name })
}
