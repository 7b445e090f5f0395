package watch

import (
	"context"
	"slices"
)

// together is the maximum number of waiting lines that Run takes at a time. Those of different streams are read in one
// call of the model.
const together = 64

// Run reads lines until the channel is closed, or until ctx is done, whose error it then returns. It calls emit with
// the reports. The reports of each stream are in order.
func (w *Watcher) Run(ctx context.Context, lines <-chan Line, emit func([]Report) error) error {
	for {
		var waiting []Line
		select {
		case l, ok := <-lines:
			if !ok {
				return nil
			}
			waiting = append(waiting, l)
		case <-ctx.Done():
			return ctx.Err()
		}
		for more := true; more && len(waiting) < together; {
			select {
			case l, ok := <-lines:
				if more = ok; ok {
					waiting = append(waiting, l)
				}
			default:
				more = false
			}
		}
		for len(waiting) > 0 {
			var now []Line
			now, waiting = firstOfEach(waiting)
			reports, err := w.Read(ctx, now...)
			if err != nil {
				return err
			}
			if err := emit(reports); err != nil {
				return err
			}
		}
	}
}

// firstOfEach returns the first line of each stream, and the others.
func firstOfEach(lines []Line) (first, rest []Line) {
	for _, l := range lines {
		if slices.ContainsFunc(first, func(f Line) bool { return f.Stream == l.Stream }) {
			rest = append(rest, l)
		} else {
			first = append(first, l)
		}
	}
	return first, rest
}
