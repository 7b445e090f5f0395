package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/hippo-ssm/hippo/serve/records"
	"github.com/hippo-ssm/hippo/serve/request"
)

// progress stores a response with its events from time to time, until stop is called, for clients that follow it at
// other servers. It waits until an eighth of the events is new, so that each event is written only a few times.
func (s *Responses) progress(owner string, t *task, first responseRecord) (stop func()) {
	const every, part = 500 * time.Millisecond, 8
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for stored := 0; ; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			r := first
			if r.Events = t.log.with(nil); len(r.Events) <= len(first.Events) {
				continue
			}
			t.q.mu.Lock()
			r.Response = t.q.object
			data := request.JSON(&r)
			t.q.mu.Unlock()
			if len(data)-stored > stored/part && s.put(owner, r.Response.ID, json.RawMessage(data)) == nil {
				stored = len(data)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// elsewhere returns the events of a response that another server generates, as that server stores them.
func (s *Responses) elsewhere(c *request.Call, r *responseRecord) *eventLog {
	const every = 250 * time.Millisecond
	l := &eventLog{changed: make(chan struct{})}
	go func() {
		for known := 0; ; {
			events, over := replayed(r.Events).events, !r.Response.unfinished()
			l.Add(events[min(known, len(events)):]...)
			if known = max(known, len(events)); over {
				l.close(len(events) == 0)
				return
			}
			select {
			case <-time.After(every):
			case <-c.Request.Context().Done():
				return
			}
			now, err := s.response(c, r.Response.ID)
			switch {
			case err == nil:
				r = now
			case request.ErrorOf(err).Status == http.StatusNotFound: // the response was deleted
				l.close(false)
				return
			}
		}
	}()
	return l
}

// overrule cancels a response that another server generates. That server notices when it renews its lease, or stores
// the response.
func (s *Responses) overrule(c *request.Call, id string) (r *responseRecord, err error) {
	err = records.Overrule(s.store, responseName(c.Owner(), id), func(now *responseRecord) {
		if r = now; r.Response.unfinished() {
			r.end(errCancelled)
		}
	})
	if errors.Is(err, records.ErrLocked) {
		err = &request.Error{
			Status: http.StatusConflict, Code: "in_use",
			Message: fmt.Sprintf("another server on the folder makes the response %s, want the request there", id),
		}
	}
	return r, err
}

// overruled replaces the response by the one that another server has stored when it ended the response. This server's
// version is discarded.
func (s *Responses) overruled(owner string, q *responding) {
	r := &responseRecord{}
	err := records.Get(s.store, responseName(owner, q.object.ID), r)
	if errors.Is(err, fs.ErrNotExist) { // another server has deleted the response
		q.object.Error, q.object.Status = nil, responseCancelled
	} else if err == nil && !r.Response.unfinished() {
		q.object = r.Response
	}
}

// end ends a stored response and its events with an error.
func (r *responseRecord) end(err error) {
	q := &responding{object: r.Response}
	if r.Events != nil {
		q.events = &eventWriter{number: len(replayed(r.Events).events)}
	}
	q.fail(err)
	r.Response, r.Events = q.object, append(r.Events, q.last()...)
}

// settle ends a stored response whose server stopped before finishing it.
func (s *Responses) settle(owner string, r *responseRecord) (*responseRecord, error) {
	name := responseName(owner, r.Response.ID)
	if s.tasks.get(name) != nil {
		return r, nil
	}
	hold, err := s.store.Lock(name)
	if errors.Is(err, records.ErrLocked) {
		return r, nil // another server is generating it
	}
	if err != nil {
		return nil, err
	}
	defer hold.Release()
	now := &responseRecord{} // the response may have ended meanwhile
	if err := records.Get(s.store, name, now); err != nil {
		return nil, err
	}
	if now.Response.unfinished() && s.tasks.get(name) == nil {
		now.end(&request.Error{
			Status: http.StatusServiceUnavailable, Code: "server_stopped",
			Message: "the server has ended before the response was complete: ask again",
		})
		err = s.put(owner, r.Response.ID, now)
	}
	return now, err
}
