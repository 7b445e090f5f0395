package main

import (
	"context"
	"os"
	"time"

	"github.com/hippo-ssm/hippo/internal/status"
)

// quietFor is the time that work may take before its progress is written, if standard error is no terminal.
const quietFor = 10 * time.Second

// progress shows the progress of some work on standard error: on a terminal from the start, elsewhere after quietFor.
type progress struct {
	what    string
	printer *status.Printer
	started time.Time
	silent  time.Duration
}

func newProgress(what string) *progress {
	p := &progress{what: what, printer: status.New(os.Stderr, quietFor), started: time.Now()}
	if !isTerminal(os.Stderr) {
		p.silent = quietFor
	}
	return p
}

func (p *progress) update(done, total int) {
	elapsed := max(time.Since(p.started), time.Millisecond)
	if elapsed < p.silent {
		return
	}
	line := status.Line{
		{Value: p.what},
		{Value: status.Count(done) + "/" + status.Count(total)},
		{Value: status.Count(float64(done)/elapsed.Seconds()) + "/s"},
	}
	if done > 0 && done < total {
		left := time.Duration(float64(elapsed) / float64(done) * float64(total-done))
		line = append(line, status.Field{Key: "eta", Value: status.Duration(left)})
	}
	p.printer.Update(line)
}

func (p *progress) close() { p.printer.Close() }

// rowCounter shows, from two seconds on, how many rows are done. The number of all rows is not known.
type rowCounter struct {
	what    string
	rows    int
	printer *status.Printer
	started time.Time
}

func newRowCounter(what string) *rowCounter {
	return &rowCounter{what: what, printer: status.New(os.Stderr, quietFor), started: time.Now()}
}

// add counts a row.
func (c *rowCounter) add() {
	c.rows++
	const few = 256 // rows after which the clock is read
	if c.rows%few != 0 || isTerminal(os.Stdout) {
		return
	}
	if elapsed := time.Since(c.started); elapsed > 2*time.Second {
		c.printer.Update(status.Line{{Value: status.Count(c.rows) + " " + c.what},
			{Value: status.Count(float64(c.rows)/elapsed.Seconds()) + "/s"}})
	}
}

func (c *rowCounter) close() { c.printer.Close() }

// functions returns the methods update and close, for packages that report their progress.
func (p *progress) functions() (update func(done, total int), end func()) { return p.update, p.close }

// unlessDone runs work that cannot be interrupted. When ctx is done, it returns without waiting for the work, as the
// program is about to end.
func unlessDone[T any](ctx context.Context, work func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	c := make(chan result, 1)
	go func() {
		value, err := work()
		c <- result{value, err}
	}()
	select {
	case r := <-c:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// saidAfter prints what a command does, for commands that report no progress, if they take longer than wait. end must
// be called when the work has ended.
func saidAfter(wait time.Duration, print func(text string), what string) (end func()) {
	t := time.AfterFunc(wait, func() { print(what) })
	return func() { t.Stop() }
}

// saidWhenSlow is saidAfter with two seconds, on standard error.
func saidWhenSlow(what string) (end func()) { return saidAfter(2*time.Second, note, what) }
