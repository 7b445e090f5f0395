package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/hippo-ssm/hippo/fit"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/serve/rows"
)

// predictors opens the networks of hippo fit among what hippo serve is given, and returns the others, too.
func predictors(args []string) (networks []rows.Predictor, others []string, err error) {
	for _, arg := range args {
		name, path := modelNames(arg)
		is, err := model.HasNetwork(path)
		if err != nil {
			return nil, nil, err
		}
		if !is {
			others = append(others, arg)
			continue
		}
		p, err := predictor(name, path)
		if err != nil {
			return nil, nil, err
		}
		if slices.ContainsFunc(networks, func(other rows.Predictor) bool { return other.Name == name }) {
			return nil, nil, errSameName(arg, name)
		}
		networks = append(networks, p)
	}
	return networks, others, nil
}

// errSameName is the error of two models of one name.
func errSameName(arg, name string) error {
	return fmt.Errorf("%s: found two models with the name %q, want NAME=PATH with another", arg, name)
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

// unlike returns an error where a network has the name of a model.
func (l *library) unlike(networks []rows.Predictor) error {
	for _, n := range l.named {
		if slices.ContainsFunc(networks, func(p rows.Predictor) bool { return p.Name == n.name }) {
			return errSameName(n.path, n.name)
		}
	}
	return nil
}
