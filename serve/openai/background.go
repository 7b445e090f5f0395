package openai

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo/serve/records"
	"github.com/hippo-ssm/hippo/serve/request"
)

// A background response is generated while its client does not wait. It is stored at once, and again when it has ended.
// In between, this server holds its lock. So a server that finds an unfinished response without a lock knows that the
// server that generated it has stopped. Other servers that share a bucket can follow the events that are stored
// meanwhile. They cancel the response by storing it as cancelled. The server that generates it then loses the lock.

// tasks are the unfinished background responses.
type tasks struct {
	mu  sync.Mutex
	all map[string]*task // by name of the record
	of  map[string]int   // number of tasks by owner

	followed *request.Places // places of clients that follow events
}

// newTasks returns an empty set of tasks.
func newTasks() tasks {
	return tasks{all: map[string]*task{}, of: map[string]int{}, followed: request.NewPlaces(maxFollowed)}
}

// task is an unfinished background response.
type task struct {
	q      *responding
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the response has ended and is stored
	log    *eventLog     // nil if the client did not request a stream
}

// maxTasks is the maximum number of an owner's unfinished background responses.
const maxTasks = 100

// maxFollowed is the maximum number of clients that follow events at a time. The events are in memory meanwhile.
const maxFollowed = 128

// following describes these clients in errors.
const following = "clients read the events of responses"

// errCancelled is the cause of ending a response that its client cancels.
var errCancelled = &request.Error{Status: request.StatusGone, Message: "the client has canceled the response"}

// add adds a task under a name.
func (s *tasks) add(owner, name string, t *task) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[owner] >= maxTasks {
		return request.Busy("%d responses in the background have not ended, as many as a client may have", maxTasks)
	}
	s.all[name] = t
	s.of[owner]++
	return nil
}

// end removes a task.
func (s *tasks) end(owner, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.all[name].done)
	delete(s.all, name)
	if s.of[owner]--; s.of[owner] == 0 {
		delete(s.of, owner)
	}
}

// get returns a task, or nil.
func (s *tasks) get(name string) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[name]
}

// wait waits until a task has ended and is stored, or until the client disconnects.
func (t *task) wait(c *request.Call) error {
	select {
	case <-t.done:
		return nil
	case <-c.Request.Context().Done():
		return context.Cause(c.Request.Context())
	}
}

// any returns any task, or nil if there is none.
func (s *tasks) any() *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.all {
		return t
	}
	return nil
}

// Wait waits until there are no background responses, or until ctx is done.
func (s *Responses) Wait(ctx context.Context) {
	for t := s.tasks.any(); t != nil && ctx.Err() == nil; t = s.tasks.any() {
		select {
		case <-t.done:
		case <-ctx.Done():
		}
	}
}

// checkBackground checks the fields of a background response.
func (q *responding) checkBackground(c *request.Call) error {
	var ch request.Checks
	ch.That(request.Or(q.Store, true), "background", "found true and store false, want a response that is stored")
	ch.That(!c.Share.Last, "background", "found true in a line of a batch, want false: nobody waits for it")
	return ch.Err
}

// begin starts a background response and responds to its request, with the current response or with its events. After
// begin has started the response, the held conversation is released when the response ends, not by the request.
func (s *Responses) begin(q *responding, c *request.Call, held *records.Hold) (err error) {
	owner, name := c.Owner(), responseName(c.Owner(), q.object.ID)
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(c.Request.Context()))
	t := &task{q: q, cancel: cancel, done: make(chan struct{})}
	q.object.Status, q.object.Background = responseQueued, true
	if err := c.Draining(); err != nil {
		return err
	}
	if q.Stream {
		leave, err := s.tasks.followed.Enter(c.Share, following)
		if err != nil {
			return err
		}
		defer leave()
	}
	if err := s.tasks.add(owner, name, t); err != nil {
		return err
	}
	tell := func(responseEvent) {}
	if q.Stream {
		t.log = &eventLog{changed: make(chan struct{})}
		q.events = &eventWriter{to: t.log}
		tell = q.events.add
		tell(responseEvent{Type: "response.created", Response: &q.object})
		tell(responseEvent{Type: "response.queued", Response: &q.object})
		q.record.Events = t.log.with(nil)
	}
	q.record.Response = q.object
	err = s.put(owner, q.object.ID, &q.record)
	var hold records.Hold
	if err == nil { // a record in a bucket can be locked only once it exists; nobody else knows its name yet
		hold, err = s.store.Lock(name)
	}
	if err != nil {
		s.tasks.end(owner, name)
		return err
	}
	now, first := q.object, q.record
	c.Share.Last = true // requests for which the client waits come first
	d := c.Detach(ctx)
	q.job.Call = d
	talk := *held
	held.Release = func() {}
	go func() {
		defer s.tasks.end(owner, name)
		defer hold.Release()
		defer d.End()
		defer d.Release()
		defer talk.Release()
		defer context.AfterFunc(s.o.Running, func() { cancel(context.Cause(s.o.Running)) })()
		defer request.WhenLost(hold.Lost, cancel)()
		defer request.WhenLost(talk.Lost, cancel)()
		stop := func() {}
		if t.log != nil && s.store.Strict() {
			stop = s.progress(owner, t, first)
		}
		s.work(ctx, t, d, tell, stop)
		cancel(nil)
	}()
	if t.log != nil {
		return t.log.follow(c, 0)
	}
	return c.JSON(&now)
}

// work generates a response and stores it. stop is called before it is stored for the last time.
func (s *Responses) work(ctx context.Context, t *task, c *request.Call, tell func(responseEvent), stop func()) {
	q := t.q
	err := request.Protect(ctx, 0, func(ctx context.Context, _ int) error { return s.patiently(ctx, q, c, tell) })
	stop()
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		q.fail(err)
	}
	var last []byte // sent after the response is stored with it
	lost := errors.Is(err, records.ErrLost)
	if !lost {
		last = q.last()
		if t.log != nil {
			q.record.Events = t.log.with(last)
		}
		q.record.Response = q.object
		failed := s.put(c.Owner(), q.object.ID, &q.record)
		if lost = errors.Is(failed, records.ErrLost); failed != nil && !lost {
			s.o.Log.Error("a response in the background could not be stored", "request", c.ID, "error", failed.Error())
		}
	}
	if lost {
		s.overruled(c.Owner(), q)
		last = q.last()
	}
	if t.log != nil {
		t.log.end(last)
	}
	attrs := []any{"request", c.ID, "client", c.Client(), "status", q.object.Status}
	if err != nil && !errors.Is(err, errCancelled) {
		attrs = append(attrs, "error", err.Error())
	}
	for _, note := range c.Notes {
		attrs = append(attrs, note)
	}
	s.o.Log.Info("a response in the background has ended", attrs...)
}

// fail ends a response with an error. Its output so far is kept, and nothing can continue from it.
func (q *responding) fail(err error) {
	q.object.Status = responseCancelled
	if !errors.Is(err, errCancelled) {
		q.object.setError(request.ErrorOf(err))
	}
	for i := range q.object.Output {
		if item := &q.object.Output[i]; item.Status == responseRunning {
			item.Status = responseCut
		}
	}
}

// patiently waits until the response may be generated, and generates it. If the server is busy, or the key has no
// tokens left, it retries later.
func (s *Responses) patiently(ctx context.Context, q *responding, c *request.Call, tell func(responseEvent)) error {
	const most = 5 * time.Second
	for wait := 100 * time.Millisecond; ; wait = min(most, 2*wait) {
		err := c.Enter(s.Admit)
		if err == nil {
			q.mu.Lock()
			q.object.Status = responseRunning
			q.record.Response = q.object
			q.mu.Unlock()
			if err = s.put(c.Owner(), q.object.ID, &q.record); err == nil {
				err = q.run(ctx, c, tell)
			}
			c.Leave(s.Admit)
		}
		if err == nil || ctx.Err() != nil || q.begun || request.ErrorOf(err).Retry == 0 || c.Draining() != nil {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// unfinished reports whether a stored response has not ended.
func (a *Response) unfinished() bool {
	return a.Status == responseQueued || a.Status == responseRunning
}

// last returns the last event of a response, or nil if the client did not request a stream.
func (q *responding) last() []byte {
	if q.events == nil {
		return nil
	}
	w := *q.events
	return w.next(responseEvent{Type: "response." + q.object.Status, Response: &q.object})
}

// after returns the number of the first event that a request for a stream asks for.
func after(c *request.Call) (int, error) {
	text := c.Query("starting_after")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, request.Invalid("starting_after", "found %.40q, want the sequence_number of an event", text)
	}
	return n + 1, nil
}

// Show responds with a response, or with the events of a background response.
func (s *Responses) Show(c *request.Call) error {
	// OpenAI's client for Go does not set stream in the query.
	id, streams := c.Request.PathValue("id"), c.Query("stream") == "true" || c.Query("starting_after") != ""
	from, err := after(c)
	if err != nil {
		return err
	}
	if streams {
		leave, err := s.tasks.followed.Enter(c.Share, following)
		if err != nil {
			return err
		}
		defer leave()
	}
	var log *eventLog
	t := s.tasks.get(responseName(c.Owner(), id))
	if t != nil {
		log = t.log
	}
	if t != nil && !streams {
		t.q.mu.Lock()
		data, running := request.JSON(&t.q.object), t.q.object.unfinished()
		t.q.mu.Unlock()
		if running {
			return c.Send(http.StatusOK, "application/json", append(data, '\n'))
		}
		if err := t.wait(c); err != nil { // once it has ended, it is stored and can be continued
			return err
		}
		t = nil
	}
	if t == nil {
		r, err := s.response(c, id)
		if err != nil {
			return err
		}
		if !streams {
			return c.JSON(&r.Response)
		}
		if r.Events != nil && r.Response.unfinished() {
			log = s.elsewhere(c, r)
		} else if r.Events != nil {
			log = replayed(r.Events)
		}
	}
	if log == nil {
		return request.Invalid("stream", "found true, want none, or a response that was created with stream and "+
			"background")
	}
	return log.follow(c, from)
}

// Cancel cancels a background response. Other responses have ended, or end when their clients disconnect.
func (s *Responses) Cancel(c *request.Call) error {
	r, err := s.stop(c, c.Request.PathValue("id"))
	if err != nil {
		return err
	}
	return c.JSON(&r.Response)
}

// stop returns a response that has ended. It first cancels a background response that is being generated.
func (s *Responses) stop(c *request.Call, id string) (*responseRecord, error) {
	if t := s.tasks.get(responseName(c.Owner(), id)); t != nil {
		t.cancel(errCancelled)
		if err := t.wait(c); err != nil {
			return nil, err
		}
	}
	r, err := s.response(c, id)
	if err == nil && r.Response.unfinished() {
		return s.overrule(c, id)
	}
	return r, err
}
