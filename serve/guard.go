package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/internal/origin"
	"github.com/hippo-ssm/hippo/serve/anthropic"
	"github.com/hippo-ssm/hippo/serve/ollama"
	"github.com/hippo-ssm/hippo/serve/openai"
	"github.com/hippo-ssm/hippo/serve/request"
)

// answering is a request in flight.
type answering struct {
	*request.Call
	shared bool  // it comes from an allowed page of another origin
	err    error // why it failed
}

// ServeHTTP responds to a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// by returns a handler for the routes of a mux.
func (s *Server) by(by *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.respond(w, r, by) })
}

// respond responds to a request with a route of a mux.
func (s *Server) respond(w http.ResponseWriter, r *http.Request, by *http.ServeMux) {
	c := &answering{Call: request.NewCall(w, r, requestID(r), &s.shared)}
	h := w.Header()
	h.Set("X-Request-Id", c.ID)
	fail := openai.Fail
	switch {
	case strings.HasPrefix(r.URL.Path, "/api/"):
		fail = ollama.Fail
	case anthropic.Speaks(r):
		fail = anthropic.Fail
		h.Set("Request-Id", c.ID)
	}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	ctx, cancel := context.WithCancelCause(c.Track.Context(r.Context()))
	defer cancel(nil)
	defer context.AfterFunc(s.running, func() { cancel(context.Cause(s.running)) })()
	c.Request = r.WithContext(ctx)
	if r.ContentLength != 0 { // a slow body must not block the connection, whatever the response
		http.NewResponseController(w).SetReadDeadline(c.Begun.Add(s.o.ReadTimeout))
	}
	defer c.End()
	s.guarded(c, by)
	// For the rest of the response: its last chunk, for example.
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.o.WriteTimeout))
	c.Release()
	if c.err != nil && c.Status == 0 {
		e := request.ErrorOf(c.err)
		e.Headers(h)
		fail(c.Call, e)
	}
	s.log(c)
}

// requestID returns the client's id of the request if it is short and plain, or else a new one.
func requestID(r *http.Request) string {
	const most = 64
	id := r.Header.Get("X-Request-Id")
	plain := !strings.ContainsFunc(id, func(c rune) bool {
		return !isLetterOrDigit(c) && !strings.ContainsRune("-_.", c)
	})
	if id != "" && len(id) <= most && plain {
		return id
	}
	return "req_" + rand.Text()
}

// guarded responds to a request and turns a panic into an error.
func (s *Server) guarded(c *answering, by *http.ServeMux) {
	defer request.Recover(&c.err)
	keyless := by != s.mux || len(s.keys.Load().keys) == 0
	if c.err = s.allowedOrigin(c, keyless); c.err == nil && !c.preflight() {
		by.ServeHTTP(c, c.Request)
	}
}

// routed returns the handler of a route in a mux.
func (s *Server) routed(r route) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		c := w.(*answering) // set by guarded
		c.Request = request // with the values of the path
		c.Route = r.pattern
		if form, ok := s.forms[r.pattern]; ok {
			c.Form = &form
		}
		if c.err = s.allowedKey(c.Call, r.scope); c.err == nil {
			c.err = r.handler(c.Call)
		}
	}
}

// noRoute is the handler of unknown paths and methods.
func (s *Server) noRoute(c *request.Call) error {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		other := c.Request.Clone(c.Request.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); pattern != everything && method != c.Request.Method {
			c.Header().Add("Allow", method)
		}
	}
	if allow := c.Header().Values("Allow"); len(allow) > 0 {
		return &request.Error{
			Status: http.StatusMethodNotAllowed,
			Message: fmt.Sprintf("found %s %.200s, want %s", c.Request.Method, c.Request.URL.Path,
				strings.Join(allow, " or ")),
		}
	}
	e := &request.Error{
		Status: http.StatusNotFound, Code: "unknown_url",
		Message: fmt.Sprintf("there is no %s %.200s", c.Request.Method, c.Request.URL.Path),
	}
	if there, ok := elsewhere[c.Request.URL.Path]; ok {
		e.Message += ", want " + there
	}
	return e
}

// allowedKey checks the key of a request.
func (s *Server) allowedKey(c *request.Call, scope Scope) error {
	ring := s.keys.Load()
	if c.Admin = len(ring.keys) == 0; c.Admin || scope == "" {
		return nil
	}
	secret, ok := secretOf(c.Request)
	key := findKey(ring.keys, secret)
	if line := lineOf(c.Request.Context()); line != nil { // checked when the batch was created
		key = keyNamed(ring.keys, line.owner)
	}
	if key == nil {
		e := &request.Error{
			Status: http.StatusUnauthorized, Code: "invalid_api_key",
			Message: "the API key is none of this server's",
		}
		if !ok {
			e.Message = "there is no API key in the request: want the header Authorization: Bearer KEY " +
				"or X-Api-Key: KEY"
		}
		return e
	}
	c.Key = key.Name
	c.Share = request.Share{
		Client: key.Name, Most: key.Concurrent, Others: len(ring.keys) > 1, Last: lineOf(c.Request.Context()) != nil,
	}
	if !s.o.ShareCache {
		c.Separate()
	}
	if key.expired(time.Now()) {
		return &request.Error{
			Status: http.StatusUnauthorized, Code: "invalid_api_key",
			Message: "the API key was good until " + key.Expires.Format(time.DateOnly),
		}
	}
	if !key.allows(scope) {
		return request.ErrScope(string(scope))
	}
	c.Admin = key.allows(ScopeAdmin)
	l := ring.limits[key.Name]
	if l == nil {
		return nil
	}
	c.Allowance = l
	return l.takeRequest(c.Header(), (scope == ScopeCompletions || scope == ScopePredict) &&
		c.Request.Method == http.MethodPost)
}

// secretOf returns the secret of a request, and whether there is one. Anthropic's clients have a header of their own.
func secretOf(r *http.Request) (secret string, ok bool) {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(secret), true
	}
	secret = r.Header.Get("X-Api-Key")
	return secret, secret != ""
}

// allowedOrigin refuses requests that a browser sends for pages of other sites: those with an origin that the server
// does not allow and, if it has no keys, those whose Host header is a foreign name (DNS rebinding).
func (s *Server) allowedOrigin(c *answering, keyless bool) error {
	rules := origin.Rules{
		Names: s.o.Hosts, AnyName: !keyless, Shares: func(from string) bool { return s.shares(c, from) },
	}
	if err := rules.Check(c.Request); err != nil {
		return &request.Error{Status: http.StatusForbidden, Code: "forbidden_origin", Message: err.Error()}
	}
	return nil
}

// log logs a request after its response.
func (s *Server) log(c *answering) {
	level, took := slog.LevelInfo, time.Since(c.Begun).Seconds()
	status := c.Status
	attrs := []slog.Attr{
		slog.String("request", c.ID), slog.String("method", c.Request.Method),
		slog.String("path", c.Request.URL.Path[:min(len(c.Request.URL.Path), 200)]),
		slog.String("client", c.Client()), slog.Float64("seconds", took),
	}
	attrs = append(append(attrs, c.Notes...), c.Attrs()...)
	if c.err != nil {
		e := request.ErrorOf(c.err)
		status = e.Status
		if attrs = append(attrs, e.Attrs(c.err)...); status == http.StatusInternalServerError ||
			status == http.StatusInsufficientStorage {
			level = slog.LevelError
		}
		var p *request.Panic
		if errors.As(c.err, &p) {
			attrs = append(attrs, slog.String("stack", string(p.Stack)))
		}
	}
	s.metrics.responded(c.Call, c.err, status, took)
	s.o.Log.LogAttrs(c.Request.Context(), level, "request", append(attrs, slog.Int("status", status))...)
}

// isLetterOrDigit reports whether c is an ASCII letter or digit.
func isLetterOrDigit(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// withMiddleware wraps the handler of the server in the middleware of the options.
func (s *Server) withMiddleware(h http.Handler) http.Handler {
	if s.o.Middleware == nil {
		return h
	}
	return s.o.Middleware(h)
}
