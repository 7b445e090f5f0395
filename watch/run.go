package watch

import (
	"context"
	"slices"
)

// together is how many lines that have come are looked at at once, for those of different streams to be read in one
// call of the model.
const together = 64

// Run reads lines until the channel is closed, or ctx is done, whose error it then returns. emit is called with the
// reports on lines, those of each stream in order.
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
