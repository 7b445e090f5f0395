package batch

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/serve/fleet"
)

// Reasons why a batch ends before its last request, as causes of its context.
var (
	errCancelled = fmt.Errorf("batch: cancelled: %w", context.Canceled)
	errExpired   = fmt.Errorf("batch: expired: %w", context.Canceled)
)

// employ starts a worker for an owner, if one is needed. mu must be held.
func (s *Store) employ(owner string) {
	if s.busy[owner] || s.closed || s.next(owner) == nil {
		return
	}
	s.busy[owner] = true
	s.workers.Go(func() { s.work(owner) })
}

// next returns the oldest unfinished batch of an owner. mu must be held.
func (s *Store) next(owner string) (oldest *Batch) {
	for _, b := range s.batches {
		if b.Owner == owner && !b.Status.ended() && !s.passed[b.ID] &&
			(oldest == nil || b.Created.Before(oldest.Created) || b.Created.Equal(oldest.Created) && b.ID < oldest.ID) {
			oldest = b
		}
	}
	return oldest
}

// work runs the batches of an owner, one after another.
func (s *Store) work(owner string) {
	for {
		s.mu.Lock()
		b := s.next(owner)
		if b == nil || s.closed {
			delete(s.busy, owner)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if !s.claim(b) {
			continue
		}
		s.mu.Lock()
		r := &run{s: s, b: s.batches[b.ID].copied()}
		ctx, cancel := context.WithCancelCause(s.running)
		s.cancels[b.ID] = cancel
		s.mu.Unlock()
		s.watch(ctx, b.ID, cancel)
		var err error
		if !r.b.Status.ended() {
			err = r.run(ctx)
		}
		cancel(nil)
		s.mu.Lock()
		delete(s.cancels, b.ID)
		s.mu.Unlock()
		goes := err == nil || s.rest(r, err)
		if s.release(b.ID); !goes {
			return
		}
	}
}

// rest handles an error of a batch, and reports whether the worker should continue.
func (s *Store) rest(r *run, err error) bool {
	if errors.Is(context.Cause(s.running), errClosed) {
		if err := s.change(r.b.ID, func(*Batch) {}); err != nil { // store its counts
			s.o.Log.Error("batch", "batch", r.b.ID, "error", err.Error())
		}
		return false
	}
	if errors.Is(err, errTaken) || errors.Is(err, fleet.ErrLost) {
		s.o.Log.Info("another server has the batch", "batch", r.b.ID)
		s.refund(r.b.Owner, r.paid)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.passed[r.b.ID] = true // until the next poll
		return true
	}
	if passes(err) { // nothing is lost: the batch continues from its journal as soon as there is space
		s.refund(r.b.Owner, r.paid)
		s.waitForSpace(s.running, r.b.ID, err)
		return true
	}
	s.o.Log.Error("batch", "batch", r.b.ID, "error", err.Error())
	p := Problem{Code: "server_error", Message: "the server had an error; its log says more"}
	if errors.Is(err, ErrLimit) {
		p = Problem{Code: "storage_limit_exceeded", Message: err.Error()}
	}
	// If this cannot be written either, the batch has failed in this process. Continue with the next one.
	if err := r.fail(p); err != nil {
		s.o.Log.Error("batch", "batch", r.b.ID, "error", err.Error())
	}
	return true
}

// passes reports whether an error is temporary: a full disk, or a bucket that is unavailable.
func passes(err error) bool { return disk.IsFull(err) || errors.Is(err, fleet.ErrUnavailable) }

// fullPause is the time after which a batch tries again to write to a full disk.
const fullPause = 10 * time.Second

// waitForSpace logs an error and waits. It reports whether ctx is not done.
func (s *Store) waitForSpace(ctx context.Context, id string, err error) bool {
	s.o.Log.Error("batch", "batch", id, "error", err.Error())
	select {
	case <-time.After(fullPause):
		return true
	case <-ctx.Done():
		return false
	}
}

// run is a running batch.
type run struct {
	s    *Store
	b    Batch // the description at the start
	done *done
	out  journal
	torn bool  // out is closed, and may end with an incomplete record
	paid int64 // bytes of the journal charged to the owner
	told time.Time
}

func (r *run) name() string { return r.b.ID + progress }

// run runs the batch. If run returns an error, the batch has not ended.
func (r *run) run(ctx context.Context) error {
	if r.b.End != "" {
		return r.finish(r.b.End) // it was finalizing when the process ended
	}
	ctx, cancel := context.WithDeadlineCause(ctx, r.b.Expires, errExpired)
	defer cancel()
	if r.b.Status == Cancelling {
		return r.finish(Cancelled)
	}
	if r.b.Status == Validating {
		problem, err := r.validate()
		if err != nil || problem != nil {
			if problem != nil {
				err = r.fail(*problem)
			}
			return err
		}
	}
	err := r.answer(ctx)
	switch {
	case errors.Is(err, errClosed) || errors.Is(err, errTaken):
		return err
	case errors.Is(err, errCancelled):
		return r.finish(Cancelled)
	case errors.Is(err, errExpired):
		return r.finish(Expired)
	case err != nil:
		return err
	}
	return r.finish(Completed)
}

// validate counts the requests.
func (r *run) validate() (*Problem, error) {
	file, err := r.s.vault.open(r.b.Input + content)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the file was only read
	l, n := newLines(file, r.s.o.MaxLine), 0
	for ; ; n++ {
		_, err := l.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, errLong) {
			return nil, err
		}
		if n == r.s.o.MaxLines {
			return &Problem{
				Code: "too_many_requests", Line: l.n, Param: "input_file_id",
				Message: fmt.Sprintf("found more than %d requests in the file", n),
			}, nil
		}
	}
	if n == 0 {
		return &Problem{
			Code: "empty_file", Param: "input_file_id", Message: "found no request in the file, want one a line",
		}, nil
	}
	return nil, r.s.change(r.b.ID, func(b *Batch) {
		b.Counts.Total = n
		if b.Status != Cancelling {
			b.stand(InProgress)
		}
	})
}

// answer runs all requests without a result.
func (r *run) answer(ctx context.Context) (err error) {
	if r.done, err = readJournal(r.s.vault, r.name()); err != nil {
		return err
	}
	if r.out, err = r.s.vault.extend(r.name(), r.done.size); err != nil {
		return err
	}
	if err := r.pay(r.done.size); err != nil {
		return errors.Join(err, r.out.Close())
	}
	r.count()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan record)
	var all sync.WaitGroup
	all.Go(func() {
		defer close(ended)
		if err := r.read(ctx, ended); err != nil {
			cancel(err)
		}
	})
	for first := range ended {
		if err := r.keep(ctx, first, ended); err != nil {
			cancel(err)
			for range ended { // wait for those that have not noticed yet
			}
		}
	}
	all.Wait()
	if !r.torn {
		err = r.out.Close()
	}
	return errors.Join(context.Cause(ctx), err)
}

// read starts the requests concurrently. Results go to ended.
func (r *run) read(ctx context.Context, ended chan<- record) error {
	file, err := r.s.vault.open(r.b.Input + content)
	if err != nil {
		return err
	}
	defer file.Close() // the file was only read
	in := r.items(file)
	old := make(map[int]bool, len(r.done.lines))
	for line := range r.done.lines { // lines grows meanwhile
		old[line] = true
	}
	var all sync.WaitGroup
	defer all.Wait()
	for {
		it, err := in.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if old[it.line] {
			continue
		}
		select {
		case r.s.places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		all.Go(func() {
			defer func() { <-r.s.places }() // after the result is taken, so that a full disk delays new requests
			out, err := r.one(ctx, it)
			if err == nil {
				ended <- out
			}
		})
	}
}

// items reads the requests of the batch.
func (r *run) items(file io.Reader) *items {
	return &items{lines: newLines(file, r.s.o.MaxLine), endpoints: []string{r.b.Endpoint}, seen: map[[16]byte]bool{}}
}

// one runs a request. Its error is that of ctx.
func (r *run) one(ctx context.Context, it item) (record, error) {
	q := Request{ID: "batch_req_" + rand.Text(), Owner: r.b.Owner, Endpoint: it.endpoint, Body: it.body}
	out, err := it.result(ctx, q, r.s.o.Do)
	if err != nil {
		return record{}, err
	}
	rec := record{Line: it.line, Good: out.good()}
	rec.Result, err = json.Marshal(out)
	return rec, err
}

// result runs the request of an item, and scores the item's text. Its error is that of ctx.
func (it *item) result(ctx context.Context, q Request, do func(context.Context, Request) (Response, error)) (result,
	error) {
	out := result{ID: q.ID, CustomID: it.CustomID}
	if it.problem != "" {
		where := ""
		if it.line > 0 {
			where = fmt.Sprintf("line %d: ", it.line)
		}
		out.Error = &fault{"invalid_line", where + it.problem}
		return out, nil
	}
	a, err := patiently(ctx, q, do)
	if err != nil {
		return out, err
	}
	if out.Response = (&response{a.Status, q.ID, a.Body}); !json.Valid(a.Body) {
		out.Response, out.Error = nil, &fault{"invalid_response", "the answer is not JSON"}
	}
	return it.scored(out), nil
}

// good reports whether a request has succeeded.
func (r *result) good() bool { return r.Response != nil && r.Response.Status == http.StatusOK }

// patiently runs a request, and retries it after a pause if the server is busy.
func patiently(ctx context.Context, q Request, do func(context.Context, Request) (Response, error)) (Response, error) {
	const most = 5 * time.Second
	for wait := 100 * time.Millisecond; ; wait = min(most, 2*wait) {
		a, err := do(ctx, q)
		if ctx.Err() != nil {
			return a, context.Cause(ctx)
		}
		if !errors.Is(err, ErrLater) {
			return a, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return a, context.Cause(ctx)
		}
	}
}

// keep writes the available records, and returns when they are on disk. If not all of them fit, it writes those before
// the first that does not, and returns ErrLimit.
func (r *run) keep(ctx context.Context, first record, more <-chan record) error {
	var data []byte
	var some []mark
	var full error
	var gather <-chan time.Time
	if r.s.o.Fleet != nil { // an object for each record would be too many
		gather = time.After(gatherFor)
	}
	for rec, ok := first, true; ok; {
		text, err := json.Marshal(rec)
		if err != nil {
			return err
		}
		if full = r.pay(int64(len(text) + 1)); full != nil {
			break
		}
		data = append(append(data, text...), '\n')
		some = append(some, mark{line: rec.Line, good: rec.Good, size: len(text) + 1})
		ok = false
		switch {
		case len(data) >= 1<<20:
		case gather != nil:
			select {
			case rec, ok = <-more:
			case <-gather:
			}
		default:
			select {
			case rec, ok = <-more:
			default:
			}
		}
	}
	if len(some) == 0 {
		return full
	}
	for err := r.write(data); err != nil; err = r.write(data) {
		if !passes(err) || !r.s.waitForSpace(ctx, r.b.ID, err) {
			return err
		}
	}
	for _, m := range some {
		r.done.add(m.line, m.good, m.size)
	}
	r.count()
	if r.s.o.Fleet != nil && time.Since(r.told) > tellEvery { // report the progress to other servers
		r.told = time.Now()
		if err := r.s.change(r.b.ID, func(*Batch) {}); err != nil && !passes(err) {
			return err
		}
	}
	return full
}

// In a bucket, results are gathered before they are written, and their number is reported to other servers now and
// then.
const (
	gatherFor = 500 * time.Millisecond
	tellEvery = 2 * time.Second
)

// write appends data to the records on disk. After an error, the next call overwrites what was written.
func (r *run) write(data []byte) error {
	if r.torn {
		out, err := r.s.vault.extend(r.name(), r.done.size)
		if err != nil {
			return err
		}
		r.torn, r.out = false, out
	}
	_, err := r.out.Write(data)
	if err == nil {
		err = r.out.Sync()
	}
	if err != nil {
		r.torn = true
		return errors.Join(err, r.out.Close())
	}
	return nil
}

// pay charges the owner for bytes of the journal.
func (r *run) pay(n int64) error {
	err := r.s.charge(r.b.Owner, n)
	if err == nil {
		r.paid += n
	}
	return err
}

// count updates the number of finished requests.
func (r *run) count() {
	c := r.done.counts
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	b := r.s.batches[r.b.ID]
	c.Total = b.Counts.Total
	b.Counts = c
}
