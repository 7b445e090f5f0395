// Package serve answers requests over HTTP with models, in the languages of OpenAI and of Ollama, and in that of
// evaluation harnesses. A Server is an http.Handler: it opens no port, and any number of models share it.
//
// How the files read: serve has the Server and its routes, guard what every request passes (ids, panics, keys, who may
// come in, the log), keys the API keys, admit how many run at a time; fields reads bodies, errors writes what is wrong;
// model has a Model, work reads prompts and draws replies, score and scores have log-probabilities; reply and stream
// carry a reply to a client who may be slow; completions, chat, responses, tokenize and ollama are the languages;
// stored says what of a prompt was there, reread reads ahead; shelf and record keep what clients leave with the server,
// responses and sessions; live has sessions that are in memory, and who has one.
//
// It may import session, session/store, chat, generate, generate/sample, model, tokenizer, tokenizer/template and
// internal/brief and internal/disk, and looks inside no tensor.
package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// Options are the limits of a Server, and who may use it. A number below 1 stands for the one given here.
type Options struct {
	MaxBody    int64 // bytes of the body of a request: 32 MiB
	MaxPrompt  int   // ids of a prompt: 1,048,576
	MaxPrompts int   // prompts of a request: 2,048
	MaxTokens  int   // ids of a reply: 16,384
	MaxChoices int   // n and best_of of a request: 128

	Concurrent int           // requests that run at a time: 64
	Queue      int           // requests that wait besides: 256
	QueueWait  time.Duration // after which a request that waits is turned away: 1 minute

	ReadTimeout  time.Duration // for a body to arrive: 30 seconds
	WriteTimeout time.Duration // for a client to take what there is for it: 15 seconds
	MaxUnread    int           // bytes of a reply that wait for a client: 4 MiB

	// Store is the folder for what clients leave with the server: responses and sessions. Several servers may share it.
	// Without one they are kept in memory, StateMemory bytes of it: 256 MiB.
	Store        string
	StateMemory  int64
	MaxResponses int           // of a client that are kept; the oldest go first: 1,000
	MaxSessions  int           // of a client: 100
	SessionBytes int64         // of all sessions of a client, and of all responses: 4 GiB
	MaxImport    int64         // bytes of a session that is sent: 256 MiB
	KeepFor      time.Duration // after which a response, or a session that nobody uses, is removed: 30 days

	// Keys are those of the clients; without any, whoever comes is let in.
	Keys []Key
	// Hosts are the names that a request may call the server by, "*" for any. Without any, and without keys, they are
	// localhost and addresses: so a page that a user of this machine looks at cannot use the server under a name of its
	// own.
	Hosts []string
	// Version is that of the program.
	Version string
	// Log is told of every request; nil for nobody.
	Log *slog.Logger
}

// Server is an http.Handler that answers with models.
type Server struct {
	o       Options
	models  []*Model
	admit   *admission
	shelf   shelf
	kept    atomic.Int64 // bytes of responses, since those that are too old were looked for
	swept   atomic.Int64 // when what is too old was looked for, in nanoseconds
	locks   locks        // of sessions
	unsaved pending
	heavy   chan struct{}
	mux     *http.ServeMux
	ends    atomic.Bool
	running context.Context // done when replies that run must end
	stop    context.CancelCauseFunc
}

// New returns a server of some models, at least one. A request that names no model gets the first.
func New(o Options, models ...*Model) (*Server, error) {
	if len(models) == 0 {
		return nil, fmt.Errorf("serve: no model")
	}
	for i, m := range models {
		for _, other := range models[:i] {
			if other.name == m.name {
				return nil, fmt.Errorf("serve: two models have the name %q", m.name)
			}
		}
	}
	o.fill()
	s := &Server{o: o, models: models, admit: newAdmission(o), shelf: newShelf(o.Store, o.StateMemory)}
	s.heavy = make(chan struct{}, mostHeavy)
	s.running, s.stop = context.WithCancelCause(context.Background())
	s.mux = s.routes()
	return s, nil
}

// fill sets what is not given.
func (o *Options) fill() {
	for _, limit := range []struct {
		n        *int
		standard int
	}{
		{&o.MaxPrompt, 1 << 20}, {&o.MaxPrompts, 2048}, {&o.MaxTokens, 16384}, {&o.MaxChoices, 128},
		{&o.Concurrent, 64}, {&o.Queue, 256}, {&o.MaxUnread, 4 << 20},
		{&o.MaxResponses, 1000}, {&o.MaxSessions, 100},
	} {
		if *limit.n < 1 {
			*limit.n = limit.standard
		}
	}
	for _, limit := range []struct {
		d        *time.Duration
		standard time.Duration
	}{
		{&o.QueueWait, time.Minute}, {&o.ReadTimeout, 30 * time.Second}, {&o.WriteTimeout, 15 * time.Second},
		{&o.KeepFor, 30 * 24 * time.Hour},
	} {
		if *limit.d < 1 {
			*limit.d = limit.standard
		}
	}
	for _, limit := range []struct {
		n        *int64
		standard int64
	}{{&o.MaxBody, 32 << 20}, {&o.StateMemory, 256 << 20}, {&o.SessionBytes, 4 << 30}, {&o.MaxImport, 256 << 20}} {
		if *limit.n < 1 {
			*limit.n = limit.standard
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// route is what a request asks for: its method and path, who may, and what answers. What has no scope is open to all.
type route struct {
	pattern string
	scope   Scope
	answer  func(*call) error
}

// endpoints are all there is.
func (s *Server) endpoints() []route {
	return []route{
		{"GET /health", "", s.health},
		{"GET /ready", "", s.ready},
		{"GET /v1/models", ScopeModels, s.listModels},
		{"GET /v1/models/{name...}", ScopeModels, s.showModel},
		{"POST /v1/completions", ScopeCompletions, s.completions},
		{"POST /v1/chat/completions", ScopeCompletions, s.chatCompletions},
		{"POST /v1/responses", ScopeCompletions, s.responses},
		{"GET /v1/responses/{id}", ScopeCompletions, s.showResponse},
		{"DELETE /v1/responses/{id}", ScopeCompletions, s.deleteResponse},
		{"GET /v1/responses/{id}/input_items", ScopeCompletions, s.responseInputItems},
		{"POST /v1/responses/{id}/cancel", ScopeCompletions, s.cancelResponse},
		{"POST /v1/sessions", ScopeCompletions, s.createSession},
		{"GET /v1/sessions", ScopeCompletions, s.listSessions},
		{"POST /v1/sessions/import", ScopeCompletions, s.importSession},
		{"GET /v1/sessions/{id}", ScopeCompletions, s.showSession},
		{"DELETE /v1/sessions/{id}", ScopeCompletions, s.deleteSession},
		{"POST /v1/sessions/{id}/append", ScopeCompletions, s.appendSession},
		{"POST /v1/sessions/{id}/generate", ScopeCompletions, s.generateInSession},
		{"POST /v1/sessions/{id}/fork", ScopeCompletions, s.forkSession},
		{"POST /v1/sessions/{id}/mark", ScopeCompletions, s.markSession},
		{"POST /v1/sessions/{id}/rewind", ScopeCompletions, s.rewindSession},
		{"POST /v1/sessions/{id}/score", ScopeCompletions, s.scoreInSession},
		{"GET /v1/sessions/{id}/export", ScopeCompletions, s.exportSession},
		{"GET /tokenizer_info", ScopeTokenize, s.tokenizerInfo},
		{"POST /tokenize", ScopeTokenize, s.tokenize},
		{"POST /detokenize", ScopeTokenize, s.detokenize},
		{"POST /api/generate", ScopeCompletions, s.ollamaGenerate},
		{"POST /api/chat", ScopeCompletions, s.ollamaChat},
		{"GET /api/tags", ScopeModels, s.ollamaModels},
		{"GET /api/ps", ScopeModels, s.ollamaModels},
		{"POST /api/show", ScopeModels, s.ollamaShow},
		{"GET /api/version", "", s.ollamaVersion},
	}
}

// everything is the pattern of the paths that are no endpoint.
const everything = "/"

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle(everything, s.handler(route{answer: s.noRoute}))
	for _, r := range s.endpoints() {
		mux.Handle(r.pattern, s.handler(r))
	}
	return mux
}

// Drain lets no more requests in. /ready says so, and those that run go on.
func (s *Server) Drain() { s.ends.Store(true) }

// Close lets no more requests in and ends those that run. It does not wait for them, nor close the models.
func (s *Server) Close() {
	s.Drain()
	s.stop(errDraining)
}

// model finds a model by its name; "" is the first.
func (s *Server) model(name string) (*Model, error) {
	if name == "" {
		return s.models[0], nil
	}
	for _, m := range s.models {
		if m.name == name {
			return m, nil
		}
	}
	return nil, &Error{
		Status: http.StatusNotFound, Param: "model", Code: "model_not_found",
		Message: fmt.Sprintf("model: found %.100q, which this server does not have; GET /v1/models lists them", name),
	}
}

// health says that the server runs.
func (s *Server) health(c *call) error { return c.json(map[string]string{"status": "ok"}) }

// ready says whether the server takes requests.
func (s *Server) ready(c *call) error {
	if s.ends.Load() {
		return errDraining
	}
	return c.json(map[string]string{"status": "ready"})
}
