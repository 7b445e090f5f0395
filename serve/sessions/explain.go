package sessions

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/hippo-ssm/hippo/serve/request"

	fig "github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// View explains the end of a session. Views are computed one at a time, while other requests may use the session: see
// viewing.
type View struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Tokens are the suggested numbers of last tokens to show; the first is the default. A client may request any
	// number up to the largest.
	Tokens []int `json:"tokens"`
	// Options are further choices of the client.
	Options []ViewOption `json:"options,omitempty"`
	// Pair marks a view of two sessions of the same model: see Viewed.Other.
	Pair bool `json:"pair,omitempty"`
	// State requests the state of the model.
	State bool `json:"-"`
	// Free marks a view that reads no tokens. It counts no tokens for a key and does not wait for other views.
	Free bool `json:"-"`
	// Show creates the page. Several goroutines may call it.
	Show func(ctx context.Context, x *Viewed) (*fig.Page, error) `json:"-"`
}

// ViewOption is a parameter of a view.
type ViewOption struct {
	Name   string   `json:"name"` // of the parameter of the request
	Title  string   `json:"title"`
	Values []string `json:"values"` // the first is the default
	// Ahead is the number of values that are quick enough for a page to request them in advance.
	Ahead int `json:"ahead"`
}

// Viewed is the input of a view: a snapshot of a session. The view may keep it, but must not change the model.
type Viewed struct {
	Model     *model.Model
	Tokenizer tokenizer.Tokenizer
	Name      string    // of the model
	ID        string    // of the session
	IDs       []int32   // the last tokens, as many as requested
	LogProbs  []float32 // of these, NaN if unknown
	Before    int       // number of tokens before them
	Behind    int       // number of tokens after them; 0 unless the view is of two sessions
	Other     *Paired   // the second session of a view of two; it diverges from the first
	State     *session.Snapshot
	Options   map[string]string // all options of the view
}

// explanation is the response of GET /v1/sessions/{id}/explain: a page of figures.
type explanation struct {
	Object   string            `json:"object"`
	View     string            `json:"view"`
	Options  map[string]string `json:"options"`
	Views    []View            `json:"views"` // available views
	Position int               `json:"position"`
	Tokens   int               `json:"tokens"` // number of last tokens shown
	Other    *Paired           `json:"other,omitempty"`
	Head     fig.Head          `json:"head"`
	Figures  []*fig.Figure     `json:"figures"`
}

// asked is the parsed query of a request for a view.
type asked struct {
	view    View
	tokens  int
	options map[string]string
	other   string // id of the second session of a view of two; "" for the nearest one
}

// viewAsked parses the query of a request.
func (s *Handler) viewAsked(q url.Values) (*asked, error) {
	views := s.o.Views
	if len(views) == 0 {
		return nil, request.Invalid("view", "this server explains nothing")
	}
	a := &asked{view: views[0], options: map[string]string{}}
	if name := q.Get("view"); name != "" {
		i := slices.IndexFunc(views, func(v View) bool { return v.Name == name })
		if i < 0 {
			var names []string
			for _, v := range views {
				names = append(names, v.Name)
			}
			return nil, request.Invalid("view", "found %.60q, want one of %q", name, names)
		}
		a.view = views[i]
	}
	if a.view.Pair {
		a.other = q.Get("other")
	}
	a.tokens = a.view.Tokens[0]
	if text, most := q.Get("tokens"), slices.Max(a.view.Tokens); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > most {
			return nil,
				request.Invalid("tokens", "found %.60q, want an integer from 1 to %d, the most that the view %s shows",
					text, most, a.view.Name)
		}
		a.tokens = n
	}
	for _, o := range a.view.Options {
		value := o.Values[0]
		if text := q.Get(o.Name); text != "" {
			if value = text; !slices.Contains(o.Values, text) {
				return nil, request.Invalid(o.Name, "found %.60q, want one of %q", text, o.Values)
			}
		}
		a.options[o.Name] = value
	}
	return a, nil
}

// Explain responds with a view of a session, by default the first view.
func (s *Handler) Explain(c *request.Call) error {
	a, err := s.viewAsked(c.Queries())
	if err != nil {
		return err
	}
	ids := []string{c.Request.PathValue("id")}
	if a.other != "" {
		ids = append(ids, a.other)
	}
	if err := s.allThere(c, ids); err != nil { // before waiting
		return err
	}
	x, page, err := s.show(c, a)
	if err != nil {
		return err
	}
	if x.Other != nil {
		ids = []string{ids[0], x.Other.ID}
	}
	if err := s.allThere(c, ids); err != nil { // a session may have been deleted meanwhile
		return err
	}
	return c.JSON(explanation{"session.explanation", a.view.Name, a.options, s.o.Views,
		x.Before + len(x.IDs) + x.Behind, len(x.IDs), x.Other, page.Head(), page.Figures})
}

// allThere returns an error unless all sessions belong to the client.
func (s *Handler) allThere(c *request.Call, ids []string) error {
	for _, id := range ids {
		if _, err := s.sessionRecord(place{c.Owner(), id}); err != nil {
			return err
		}
	}
	return nil
}

// viewed returns the current end of a session. It does not hold the session's lock afterwards.
func (s *Handler) viewed(c *request.Call, a *asked) (x *Viewed, err error) {
	var of record
	err = s.withSession(c, func(_ context.Context, h *inUse) error {
		ids, logProbs := h.IDs(), h.LogProbs()
		before := max(0, len(ids)-a.tokens)
		if a.view.Pair {
			before = 0
		}
		of = *h.record
		x = &Viewed{
			Model: h.model.Net, Tokenizer: h.model.Tokenizer, Name: h.model.Name, ID: of.ID, Before: before,
			IDs: slices.Clone(ids[before:]), LogProbs: slices.Clone(logProbs[before:]), Options: a.options,
		}
		if a.view.State {
			x.State = h.Snapshot()
		}
		return nil
	})
	if err == nil && a.view.Pair {
		err = s.pair(c, a, x, &of)
	}
	return x, err
}

// show creates the page of a view. Unless the view is free, it waits for its turn.
func (s *Handler) show(c *request.Call, a *asked) (x *Viewed, page *fig.Page, err error) {
	if a.view.Free {
		if x, err = s.viewed(c, a); err == nil {
			page, err = s.compute(c, a, x)
		}
		return x, page, err
	}
	free, err := s.viewing.alone(c.Request.Context(), c.Share)
	if err != nil {
		return nil, nil, err
	}
	defer free()
	if err := c.Allowance.HasTokens(); err != nil {
		return nil, nil, err
	}
	if x, err = s.viewed(c, a); err != nil {
		return nil, nil, err
	}
	done, err := s.viewing.turn(c.Request.Context())
	if err != nil {
		return nil, nil, err
	}
	defer done()
	read := len(x.IDs)
	if x.Other != nil {
		read += len(x.Other.IDs)
	}
	c.Allowance.TakeTokens(read)
	page, err = s.compute(c, a, x)
	return x, page, err
}

// compute creates the page of a view within the time limit.
func (s *Handler) compute(c *request.Call, a *asked, x *Viewed) (page *fig.Page, err error) {
	slow := &request.Error{
		Status: http.StatusServiceUnavailable, Code: "view_too_slow", Retry: time.Second,
		Message: fmt.Sprintf("the view %s of %d tokens was not there after %v, want fewer tokens, or fewer requests "+
			"beside it", a.view.Name, len(x.IDs), s.o.ViewTime),
	}
	ctx, cancel := context.WithTimeoutCause(c.Request.Context(), s.o.ViewTime, slow)
	defer cancel()
	err = request.Protect(ctx, 0, func(ctx context.Context, _ int) (err error) {
		page, err = a.view.Show(&polite{Context: ctx, others: s.serves, since: time.Now()}, x)
		if err == nil {
			err = page.Check()
		}
		if err != nil && ctx.Err() == nil {
			return request.Invalid("view", "%s: %v", a.view.Name, err)
		}
		return err
	})
	return page, err
}

// serves reports whether admitted requests are running.
func (s *Handler) serves() bool { return s.Admit.Running() > 0 }
