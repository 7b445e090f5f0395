package fit

import (
	"context"
	"fmt"
)

// score returns the error on windows by which contenders are compared. ok is false if there is nothing to measure.
func (m *Model) score(ctx context.Context, f *frame, w *windows) (x float64, ok bool, err error) {
	p := m.plan
	if p.predictsClass() {
		s, err := m.classes(ctx, f, w, f.counts(w))
		if err != nil {
			return 0, false, err
		}
		return s.Loss, s.Count > 0, nil
	}
	sums := p.newSums("")
	if err := m.sum(ctx, f, w, some(w.Len(), evalWindows), sums, nil); err != nil {
		return 0, false, err
	}
	for _, s := range sums {
		if ok = s.all.n > 0; !ok {
			return 0, false, nil
		}
		e := s.all.absolute / s.all.n
		if len(sums) > 1 {
			e /= s.deviation * float64(len(sums))
		}
		x += e
	}
	return x, ok, nil
}

// compete measures the network and its rivals on the validation set, and decides what predicts.
func (j *job) compete(ctx context.Context) error {
	p := j.f.plan
	j.loop.Note(fmt.Sprintf("measuring the network and %d simple models", len(p.Contenders)))
	all := append([]*Contender{{Name: useNetwork, Title: "network"}}, p.Contenders...)
	for i, c := range all {
		if i > 0 {
			if err := c.measureOff(ctx, j.m, j.valid); err != nil {
				return err
			}
		}
		var ok bool
		var err error
		if c.Error, ok, err = j.m.by(c).score(ctx, j.f, j.valid); err != nil {
			return err
		}
		if !ok {
			j.loop.Note("the validation set has nothing to compare by: the network predicts")
			p.Contenders, p.Use = nil, ""
			return nil
		}
	}
	p.Contenders, j.networkError = all, all[0].Error
	if p.predictsClass() {
		n := 0
		for _, count := range j.f.counts(j.valid) {
			n += count
		}
		p.Doubt = 1 / float64(n)
	}
	if p.Use = j.c.Use; p.Use == useBest {
		p.Use = p.best().Name
	}
	return nil
}
