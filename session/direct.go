package session

import (
	"context"

	"github.com/hippo-ssm/hippo/generate"
)

// Direct is a Runner that runs each request alone, in the goroutine that calls Run.
type Direct struct{}

// Run serves the request r.
func (Direct) Run(ctx context.Context, r *Request) error {
	if err := readAlone(ctx, r); err != nil {
		return err
	}
	for r.Next != nil {
		id, more, err := r.Next(r.Session.Logits(0))
		if err != nil || !more {
			return err
		}
		if err := r.Session.Feed(ctx, []int32{id}); err != nil {
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
		step := len(s.IDs)
		if s.Drawn {
			step = 1
		}
		for at := 0; at < len(s.IDs); at += step {
			part := generate.Part{Batch: r.Session, IDs: s.IDs[at : at+step], Silent: r.silent(done+step, total)}
			if first := done; r.Each != nil {
				part.Each = func(at int, logits []float32) { r.Each(first+at, logits) }
			}
			if first := done; r.Hidden != nil {
				part.Hidden = func(at int, hidden []float32) { r.Hidden(first+at, hidden) }
			}
			if err := generate.Feed(ctx, part); err != nil {
				return err
			}
			done += step
		}
	}
	return nil
}
