package session

import (
	"context"

	"github.com/hippo-ssm/hippo/generate"
)

// Direct is a Runner that serves each request alone, in the goroutine that calls Run.
type Direct struct{}

// Run serves the request r.
func (Direct) Run(ctx context.Context, r *Request) error {
	if err := readAlone(ctx, r); err != nil {
		return err
	}
	defer r.Session.Rest()
	for r.Next != nil {
		id, more, err := r.Next(r.Session.Logits(0))
		if err != nil || !more {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.Session.Take(id) {
			continue
		}
		guess, err := r.guess(ctx, generate.StepRows)
		if err != nil {
			return err
		}
		ids := append([]int32{id}, guess...)
		err = generate.Feed(ctx, generate.Part{Batch: r.Session, IDs: ids, Drawn: true, Drafts: len(guess)})
		if err != nil {
			return err
		}
	}
	return nil
}

// readAlone reads the segments of a request.
func readAlone(ctx context.Context, r *Request) error {
	total, done := 0, 0
	for _, s := range r.Segments {
		total += len(s.IDs)
	}
	if r.Progress != nil {
		defer func(before func(read, total int)) { r.Session.Progress = before }(r.Session.Progress)
		r.Session.Progress = func(read, _ int) { r.Progress(done+read, total) }
	}
	for _, s := range r.Segments {
		first, n := done, len(s.IDs)
		part := generate.Part{Batch: r.Session, IDs: s.IDs, Drawn: s.Drawn, Silent: r.silent(done+n, total)}
		if r.Each != nil {
			part.Each = func(at int, logits []float32) { r.Each(first+at, logits) }
		}
		if r.Hidden != nil {
			part.Hidden = func(at int, hidden []float32) { r.Hidden(first+at, hidden) }
		}
		if err := generate.Feed(ctx, part); err != nil {
			return err
		}
		done += n
	}
	return nil
}
