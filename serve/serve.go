// Package serve answers requests over HTTP with models, in the languages of OpenAI and of Ollama, and in that of
// evaluation harnesses. A Server is an http.Handler: it opens no port, and any number of models share it.
//
// How the files read: serve has the Server and its routes, guard what every request passes (ids, panics, keys, who may
// come in, the log), keys the API keys, admit how many run at a time; fields reads bodies, errors writes what is wrong;
// model has a Model, work reads prompts and draws replies, score and scores have log-probabilities; reply and stream
// carry a reply to a client who may be slow; completions, chat, tokenize and ollama are the languages.
//
// It may import session, session/store, chat, generate, generate/sample, model, tokenizer, tokenizer/template and
// internal/brief, and looks inside no tensor.
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

	// Keys are those of the clients; without any, whoever comes is let in.
	Keys []Key
	// Hosts are the names that a request may call the server by, "*" for any. Without any, and without keys, they are
	// localhost and addresses: so a page that a user of this machine looks at cannot use the server under a name of its
	// own.
	Hosts []string
	// Pages are what answers GET besides the endpoints, by its path: those of a page to look at, which anybody may.
	Pages map[string]http.Handler
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
	s := &Server{o: o, models: models, admit: newAdmission(o)}
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
	} {
		if *limit.n < 1 {
			*limit.n = limit.standard
		}
	}
	for _, limit := range []struct {
		d        *time.Duration
		standard time.Duration
	}{{&o.QueueWait, time.Minute}, {&o.ReadTimeout, 30 * time.Second}, {&o.WriteTimeout, 15 * time.Second}} {
		if *limit.d < 1 {
			*limit.d = limit.standard
		}
	}
	if o.MaxBody < 1 {
		o.MaxBody = 32 << 20
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
	for path, page := range s.o.Pages {
		if path == everything {
			path += "{$}" // and no other path
		}
		mux.Handle("GET "+path, s.handler(route{answer: func(c *call) error { return c.page(page) }}))
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
