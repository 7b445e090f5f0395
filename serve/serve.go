// Package serve answers requests over HTTP with models, in the languages of OpenAI and of Ollama, and in that of
// evaluation harnesses. A Server is an http.Handler: it opens no port, and any number of models share it.
//
// How the files read: serve has the Server and its routes, guard what every request passes (ids, panics, keys, who
// may come in, the log), keys the API keys, admit how many run at a time; fields reads bodies, errors writes what is
// wrong; library says where models come from, and registry which are loaded; model has a Model, work reads prompts
// and draws replies, score and scores have log-probabilities; stored says what of a prompt was there, reread reads
// ahead; shelf and record keep what clients leave with the server, responses and sessions; live has sessions that
// are in memory, held one that a request has, pending those that could not be stored, explain and viewing show them;
// structured keeps replies to a format, tools, toolforms and toolpython are calls of functions, reasoning takes
// replies apart; reply and stream carry a reply to a client who may be slow; completions, chat, responses,
// embeddings, files, batches, tokenize and ollama are the languages. For those who run a server: watch follows a
// request through all that works at it, metrics has the figures, limits what a key may take in a minute, cors which
// pages may, tls certificates, admin the address of its own. predict and predictstream have networks for rows of
// people's own data answer.
//
// It may import serve/batch, explain/figure, session, session/store, chat, generate, generate/constrain,
// generate/sample, model, tokenizer, chat/template, internal/brief, internal/disk, internal/origin and
// prometheus/client_golang, and looks inside no tensor.
package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hippo-ssm/hippo/serve/batch"
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

	MaxRows    int           // of a request for predictions: 100,000
	MaxStreams int           // streams of rows at a time: 256
	StreamIdle time.Duration // for the next row of a stream to come: 5 minutes

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

	// Files say where the files and batches of clients are kept, and their limits: in memory where there is no Dir.
	Files batch.Options

	// Keys are those of the clients; without any, whoever comes is let in. SetKeys replaces them.
	Keys []Key
	// Origins are those of pages, such as https://chat.example, that a browser may show and let use the server; "*" for
	// any. Without any, only the server's own may.
	Origins []string
	// Hosts are the names that a request may call the server by, "*" for any. Without any, and without keys, they are
	// localhost and addresses: so a page that a user of this machine looks at cannot use the server under a name of its
	// own.
	Hosts []string
	// Library has models that are loaded when they are asked for; nil for none.
	Library *Library
	// Predictors are networks for rows of people's own data.
	Predictors []Predictor
	// Pages are what answers GET besides the endpoints, by its path: those of a page to look at, which anybody may.
	Pages map[string]http.Handler
	// Views explain sessions, to who may use them. The first is shown where none is named.
	Views    []View
	ViewTime time.Duration // that a view may take: 2 minutes
	// Version is that of the program.
	Version string
	// Log is told of every request, and never of what is in it; nil for nobody.
	Log *slog.Logger

	// TLS has the certificates of the server; nil for none. See LoadCertificate.
	TLS *tls.Config
	// DrainDelay is how long Run goes on taking requests when it is to end, while /ready says that it ends: so long a
	// load balancer may need to send them elsewhere.
	DrainDelay time.Duration
	// Middleware, unless it is nil, is put around everything that answers requests.
	Middleware func(http.Handler) http.Handler
}

// Server is an http.Handler that answers with models.
type Server struct {
	o       Options
	models  *registry
	pulls   chan struct{} // places of those that run
	admit   *admission
	shelf   shelf
	kept    atomic.Int64 // bytes of responses, since those that are too old were looked for
	swept   atomic.Int64 // when what is too old was looked for, in nanoseconds
	locks   locks        // of sessions
	unsaved pending
	heavy   chan struct{}
	viewing *viewing

	predictions *admission      // of what predictors compute
	streams     chan struct{}   // places of streams of rows
	open        context.Context // done when no more requests are let in
	shut        context.CancelFunc

	mux     *http.ServeMux
	handler http.Handler // all of it
	metrics *metrics
	keysMu  sync.Mutex // held while keys are replaced
	keys    atomic.Pointer[keyring]
	bodies  atomic.Int64 // bytes of the bodies of all requests that there are
	leaves  atomic.Bool  // /ready says so
	ends    atomic.Bool
	running context.Context // done when replies that run must end
	stop    context.CancelCauseFunc
	files   *batch.Store
}

// New returns a server of some models, which are always there, and of those of a library: at least one model, a library
// or a predictor. A request that names no model gets the first.
func New(o Options, models ...*Model) (*Server, error) {
	if len(models) == 0 && o.Library == nil && len(o.Predictors) == 0 {
		return nil, fmt.Errorf("serve: no model")
	}
	for i, m := range models {
		for _, other := range models[:i] {
			if other.name == m.name {
				return nil, fmt.Errorf("serve: two models have the name %q", m.name)
			}
		}
	}
	for _, v := range o.Views {
		if len(v.Tokens) == 0 {
			return nil, fmt.Errorf("serve: the view %q has no number of tokens", v.Name)
		}
	}
	for i, p := range o.Predictors {
		same := func(other Predictor) bool { return other.Name == p.Name }
		if slices.ContainsFunc(o.Predictors[:i], same) ||
			slices.ContainsFunc(models, func(m *Model) bool { return m.name == p.Name }) {
			return nil, fmt.Errorf("serve: two models have the name %q", p.Name)
		}
	}
	o.fill()
	s := &Server{
		o: o, admit: newAdmission(o), pulls: make(chan struct{}, maxPulls), shelf: newShelf(o.Store, o.StateMemory),
		heavy: make(chan struct{}, mostHeavy), viewing: newViewing(o), streams: make(chan struct{}, o.MaxStreams),
	}
	few := o
	few.Concurrent = mostPredictions
	s.predictions = newAdmission(few)
	s.open, s.shut = context.WithCancel(context.Background())
	s.running, s.stop = context.WithCancelCause(context.Background())
	s.models = newRegistry(o, s.running, s.storePending, models)
	if err := s.SetKeys(o.Keys); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(s)
	s.models.metrics = s.metrics
	s.mux = s.routes()
	s.handler = s.withMiddleware(s.answering(s.mux))
	if err := s.openFiles(); err != nil {
		return nil, err
	}
	return s, nil
}

// fill sets what is not given.
func (o *Options) fill() {
	for _, limit := range []struct {
		n        *int
		standard int
	}{
		{&o.MaxPrompt, 1 << 20}, {&o.MaxPrompts, 2048}, {&o.MaxTokens, 16384}, {&o.MaxChoices, 128},
		{&o.Concurrent, 64}, {&o.MaxRows, 100_000}, {&o.MaxStreams, 256}, {&o.Queue, 256}, {&o.MaxUnread, 4 << 20},
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
		{&o.KeepFor, 30 * 24 * time.Hour}, {&o.ViewTime, 2 * time.Minute}, {&o.StreamIdle, 5 * time.Minute},
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

// metricsRoute is where the figures are.
const metricsRoute = "GET /metrics"

// endpoints are all there is.
func (s *Server) endpoints() []route {
	return []route{
		{"GET /health", "", s.health},
		{"GET /ready", "", s.ready},
		{metricsRoute, ScopeMetrics, s.metricsPage},
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
		{"GET /v1/sessions/{id}/explain", ScopeCompletions, s.explainSession},
		{"POST /v1/embeddings", ScopeCompletions, s.embeddings},
		{"POST /v1/predict", ScopePredict, s.predict},
		{"POST /v1/predict/stream", ScopePredict, s.predictStream},
		{"POST /api/embed", ScopeCompletions, s.ollamaEmbed},
		{"POST /api/embeddings", ScopeCompletions, s.ollamaEmbeddings},
		{"POST /v1/files", ScopeFiles, s.uploadFile},
		{"GET /v1/files", ScopeFiles, s.listFiles},
		{"GET /v1/files/{id}", ScopeFiles, s.showFile},
		{"GET /v1/files/{id}/content", ScopeFiles, s.fileContent},
		{"DELETE /v1/files/{id}", ScopeFiles, s.deleteFile},
		{"POST /v1/batches", ScopeFiles, s.createBatch},
		{"GET /v1/batches", ScopeFiles, s.listBatches},
		{"GET /v1/batches/{id}", ScopeFiles, s.showBatch},
		{"POST /v1/batches/{id}/cancel", ScopeFiles, s.cancelBatch},
		{"GET /tokenizer_info", ScopeTokenize, s.tokenizerInfo},
		{"POST /tokenize", ScopeTokenize, s.tokenize},
		{"POST /detokenize", ScopeTokenize, s.detokenize},
		{"POST /api/generate", ScopeCompletions, s.ollamaGenerate},
		{"POST /api/chat", ScopeCompletions, s.ollamaChat},
		{"GET /api/tags", ScopeModels, s.ollamaModels},
		{"GET /api/ps", ScopeModels, s.ollamaLoaded},
		{"POST /api/show", ScopeModels, s.ollamaShow},
		{"POST /api/pull", ScopeAdmin, s.ollamaPull},
		{"DELETE /api/delete", ScopeAdmin, s.ollamaDelete},
		{"GET /api/version", "", s.ollamaVersion},
		{"HEAD /{$}", "", s.ollamaHeartbeat},
	}
}

// refused are endpoints of Ollama that there are not.
var refused = []string{"POST /api/create", "POST /api/copy", "POST /api/push", "POST /api/blobs/{digest}"}

// everything is the pattern of the paths that are no endpoint.
const everything = "/"

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle(everything, s.routed(route{answer: s.noRoute}))
	for _, r := range s.endpoints() {
		mux.Handle(r.pattern, s.routed(r))
	}
	for _, pattern := range refused {
		mux.Handle(pattern, s.routed(route{pattern, ScopeAdmin, s.ollamaRefused}))
	}
	for path, page := range s.o.Pages {
		if path == everything {
			path += "{$}" // and no other path
		}
		mux.Handle("GET "+path, s.routed(route{answer: func(c *call) error { return c.page(page) }}))
	}
	return mux
}

// Drain lets no more requests in. /ready says so, and those that run go on, but for streams of rows, which have no end.
func (s *Server) Drain() {
	s.ends.Store(true)
	s.shut()
}

// Close lets no more requests in and ends those that run. It does not wait for them, nor close the models (see Unload),
// but batches stand still when it returns, and of sessions that could not be stored it was tried once more.
func (s *Server) Close() {
	s.Drain()
	s.stop(errDraining)
	if err := s.files.Close(); err != nil {
		s.o.Log.Error("files", "error", err.Error())
	}
	for _, e := range s.models.loaded() {
		s.storePending(e.model)
	}
	s.storePending(nil)
}

// model finds a model by its name, "" is the first, and waits until it is loaded. It stays as long as the call lasts.
func (s *Server) model(c *call, name string) (*Model, error) {
	if s.ends.Load() {
		return nil, errDraining
	}
	if s.predicts(name) {
		return nil, errPredicts(name)
	}
	began := time.Now()
	e, m, err := s.models.acquire(c.r.Context(), name)
	if err != nil {
		return nil, err
	}
	c.held = append(c.held, e)
	c.load += time.Since(began)
	return m, nil
}

// letGo gives back the models of a call.
func (s *Server) letGo(c *call) {
	for _, e := range c.held {
		s.models.release(e)
	}
	c.held = nil
}

// Preload loads a model of the library, or says why it cannot be loaded.
func (s *Server) Preload(ctx context.Context, name string) error {
	e, _, err := s.models.acquire(ctx, name)
	if err == nil {
		s.models.release(e)
	}
	return err
}

// Unload lets no more requests in, has the models of the library go as soon as nobody uses them, and waits for that.
func (s *Server) Unload(ctx context.Context) error {
	s.Drain()
	return s.models.close(ctx)
}

// health says that the server runs.
func (s *Server) health(c *call) error { return c.json(map[string]string{"status": "ok"}) }

// ready says whether the server takes requests.
func (s *Server) ready(c *call) error {
	if s.leaves.Load() || s.ends.Load() {
		return errDraining
	}
	return c.json(map[string]string{"status": "ready"})
}
