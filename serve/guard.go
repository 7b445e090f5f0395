package serve

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/internal/origin"
)

// call is one request with what belongs to it.
type call struct {
	w     http.ResponseWriter
	r     *http.Request
	id    string // of the request
	route string // the pattern of what it asks for, "" where there is no such thing
	watch *watch
	// shared tells that the request comes from a page of another origin, whose pages may use the server
	shared bool
	key    *Key                // nil where none is asked for
	fail   func(*call, *Error) // writes an error in the language of the path
	begun  time.Time
	wait   time.Duration // for a client that does not read
	held   []*resident   // models that it uses
	load   time.Duration // it has waited for them

	status int         // that was written, 0 for none yet
	err    error       // why the request has failed
	notes  []slog.Attr // for the log
}

// Header is that of the answer.
func (c *call) Header() http.Header { return c.w.Header() }

// WriteHeader keeps the status for the log.
func (c *call) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
	c.w.WriteHeader(status)
}

// Write keeps the status for the log.
func (c *call) Write(p []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	return c.w.Write(p)
}

// Unwrap lets http.ResponseController find the connection.
func (c *call) Unwrap() http.ResponseWriter { return c.w }

// client is who asks: a key, or else an address.
func (c *call) client() string {
	if c.key != nil {
		return c.key.Name
	}
	host, _, err := net.SplitHostPort(c.r.RemoteAddr)
	if err != nil {
		return c.r.RemoteAddr
	}
	return host
}

// note adds to what the log says of the request.
func (c *call) note(key string, value any) { c.notes = append(c.notes, slog.Any(key, value)) }

// json answers with a value.
func (c *call) json(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.send(http.StatusOK, "application/json", append(data, '\n'))
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// answering answers requests by the routes of a mux.
func (s *Server) answering(by *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, by) })
}

// answer answers a request by one of the routes of a mux.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, by *http.ServeMux) {
	c := &call{w: w, r: r, id: requestID(r), begun: time.Now(), fail: failOpenAI, wait: s.o.WriteTimeout}
	if strings.HasPrefix(r.URL.Path, "/api/") {
		c.fail = failOllama
	}
	h := w.Header()
	h.Set("X-Request-Id", c.id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.running, func() { cancel(context.Cause(s.running)) })()
	ctx, c.watch = s.withWatch(ctx, c.begun)
	c.r = r.WithContext(ctx)
	if r.ContentLength != 0 { // whoever sends a body slowly does not hold the connection, whatever the answer is
		http.NewResponseController(w).SetReadDeadline(c.begun.Add(s.o.ReadTimeout))
	}
	defer func() { s.bodies.Add(-c.watch.body.Load()) }()
	s.guarded(c, by)
	// For what is left to be sent of the answer, such as its end.
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.o.WriteTimeout))
	s.letGo(c)
	if c.err != nil && c.status == 0 {
		e := answerOf(c.err)
		e.headers(h)
		c.fail(c, e)
	}
	s.log(c)
}

// failOpenAI writes an error as OpenAI does.
func failOpenAI(c *call, e *Error) {
	body, err := json.Marshal(e)
	if err != nil {
		return // it consists of texts
	}
	c.send(e.Status, "application/json", append(body, '\n')) // where it fails the client has gone
}

// requestID is the one that the client chose, if it is short and plain, or another.
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

// isLetterOrDigit reports whether c is one of ASCII.
func isLetterOrDigit(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// panicked is an error that a panic became.
type panicked struct {
	value any
	stack []byte
}

func (e *panicked) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// contain makes an error of a panic.
func contain(err *error) {
	if p := recover(); p != nil {
		*err = &panicked{p, debug.Stack()}
	}
}

// guarded answers a request. A panic becomes an error.
func (s *Server) guarded(c *call, by *http.ServeMux) {
	defer contain(&c.err)
	keyless := by != s.mux || len(s.keys.Load().keys) == 0
	if c.err = s.allowedOrigin(c, keyless); c.err == nil && !c.preflight() {
		by.ServeHTTP(c, c.r)
	}
}

// routed is how a mux answers a call by a route.
func (s *Server) routed(r route) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		c := w.(*call) // of guarded
		c.r = request  // with the values of the path
		c.route = r.pattern
		if c.err = s.allowedKey(c, r.scope); c.err == nil {
			c.err = r.answer(c)
		}
	}
}

// noRoute is the error of a path that there is not, or not with this method.
func (s *Server) noRoute(c *call) error {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		other := c.r.Clone(c.r.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); pattern != everything && method != c.r.Method {
			c.Header().Add("Allow", method)
		}
	}
	if allow := c.Header().Values("Allow"); len(allow) > 0 {
		return &Error{
			Status:  http.StatusMethodNotAllowed,
			Message: fmt.Sprintf("found %s %.200s, want %s", c.r.Method, c.r.URL.Path, strings.Join(allow, " or ")),
		}
	}
	return &Error{
		Status: http.StatusNotFound, Code: "unknown_url",
		Message: fmt.Sprintf("there is no %s %.200s", c.r.Method, c.r.URL.Path),
	}
}

// allowedKey checks the key of a request.
func (s *Server) allowedKey(c *call, scope Scope) error {
	ring := s.keys.Load()
	if scope == "" || len(ring.keys) == 0 {
		return nil
	}
	secret, ok := strings.CutPrefix(c.r.Header.Get("Authorization"), "Bearer ")
	c.key = findKey(ring.keys, strings.TrimSpace(secret))
	if line := lineOf(c.r.Context()); line != nil { // of a batch, which its key has asked for before
		c.key = keyNamed(ring.keys, line.owner)
	}
	if c.key == nil {
		e := &Error{
			Status: http.StatusUnauthorized, Code: "invalid_api_key",
			Message: "the API key is none of this server's",
		}
		if !ok {
			e.Message = "there is no API key in the request: want the header Authorization: Bearer KEY"
		}
		return e
	}
	if c.key.expired(time.Now()) {
		return &Error{
			Status: http.StatusUnauthorized, Code: "invalid_api_key",
			Message: "the API key was good until " + c.key.Expires.Format(time.DateOnly),
		}
	}
	if !c.key.allows(scope) {
		return &Error{
			Status: http.StatusForbidden, Code: "insufficient_scope",
			Message: fmt.Sprintf("the API key does not have the scope %q", scope),
		}
	}
	c.watch.limits, c.watch.client = ring.limits[c.key.Name], c.key.Name
	return c.watch.limits.takeRequest(c.Header(),
		(scope == ScopeCompletions || scope == ScopePredict) && c.r.Method == http.MethodPost)
}

// allowedOrigin keeps off pages of others that a browser on the way to this server shows: those that say so and are not
// among the server's origins, and, where no key is asked for, those under a name that its owner has made point here.
func (s *Server) allowedOrigin(c *call, keyless bool) error {
	rules := origin.Rules{
		Names: s.o.Hosts, AnyName: !keyless, Shares: func(from string) bool { return s.shares(c, from) },
	}
	if err := rules.Check(c.r); err != nil {
		return &Error{Status: http.StatusForbidden, Code: "forbidden_origin", Message: err.Error()}
	}
	return nil
}

// log tells of a request that has been answered.
func (s *Server) log(c *call) {
	level, took := slog.LevelInfo, time.Since(c.begun).Seconds()
	status := c.status
	attrs := []slog.Attr{
		slog.String("request", c.id), slog.String("method", c.r.Method),
		slog.String("path", c.r.URL.Path[:min(len(c.r.URL.Path), 200)]),
		slog.String("client", c.client()), slog.Float64("seconds", took),
	}
	attrs = append(append(attrs, c.notes...), c.watch.attrs()...)
	if c.err != nil {
		e := answerOf(c.err)
		status = e.Status
		if attrs = append(attrs, e.attrs(c.err)...); status == http.StatusInternalServerError {
			level = slog.LevelError
		}
		var p *panicked
		if errors.As(c.err, &p) {
			attrs = append(attrs, slog.String("stack", string(p.stack)))
		}
	}
	s.metrics.answered(c, status, took)
	s.o.Log.LogAttrs(c.r.Context(), level, "request", append(attrs, slog.Int("status", status))...)
}

// send answers with a body.
func (c *call) send(status int, contentType string, body []byte) error {
	c.Header().Set("Content-Type", contentType)
	c.Header().Set("Content-Length", strconv.Itoa(len(body)))
	c.WriteHeader(status)
	return c.write(body, c.wait)
}
