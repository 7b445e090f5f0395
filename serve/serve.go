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

// Server is an http.Handler that responds with models.
type Server struct {
	o      Options
	shared shared
	host   *registry
	admit  *admission

	texts     *openaiTexts
	responses *openaiResponses
	files     *openaiFiles
	models    *openaiModels
	sessions  *sessionsHandler
	ollama    *ollamaHandler
	rows      *rowsHandler

	mux     *http.ServeMux
	handler http.Handler // all of it
	metrics *metrics
	keysMu  sync.Mutex // held while keys are replaced
	keys    atomic.Pointer[keyring]
	leaving atomic.Bool // /ready says so
	close   context.CancelFunc
	running context.Context // done when requests in flight must end
	stop    context.CancelCauseFunc
}

// New returns a server of some models, which are always loaded, and of those of a library: at least one model, a
// library or a predictor. A request that names no model gets the first.
func New(o Options, models ...*Model) (*Server, error) {
	if err := o.check(models); err != nil {
		return nil, err
	}
	o.fill()
	s := &Server{o: o, admit: newAdmission(o.Concurrent, o.Queue, o.QueueWait)}
	s.shared.MaxBody, s.shared.WriteTimeout, s.shared.MaxUnread = o.MaxBody, o.WriteTimeout, o.MaxUnread
	s.shared.Open, s.close = context.WithCancel(context.Background())
	s.running, s.stop = context.WithCancelCause(context.Background())
	s.rows = newRows(rowsOptions{
		Predictors: o.Predictors, MaxRows: o.MaxRows, MaxStreams: o.MaxStreams, StreamIdle: o.StreamIdle, Queue: o.Queue,
		QueueWait: o.QueueWait,
	})
	s.metrics = newMetrics(s)
	s.shared.Counters = s.metrics
	s.host = newHost(hostOptions{
		Queue: o.Queue, QueueWait: o.QueueWait, Running: s.running, Other: s.rows.notText, Changed: s.metrics.changed,
		Unloading: func(m *Model) { s.sessions.storePending(m) }, Log: o.Log,
	}, o.Library, models)
	replies := service{s.host, s.admit, replyLimits{o.MaxPrompt, o.MaxPrompts, o.MaxTokens, o.MaxChoices}}
	left := newRecords(o.Store, o.StateMemory, o.Log)
	s.texts = &openaiTexts{replies}
	s.responses = newOpenaiResponses(replies, left, responseOptions{
		MaxResponses: o.MaxResponses, MaxBytes: o.SessionBytes, KeepFor: o.KeepFor, Log: o.Log,
	})
	s.sessions = newSessions(replies, left, sessionsOptions{
		MaxSessions: o.MaxSessions, MaxBytes: o.SessionBytes, MaxImport: o.MaxImport, KeepFor: o.KeepFor, Queue: o.Queue,
		QueueWait: o.QueueWait, Views: o.Views, ViewTime: o.ViewTime, Log: o.Log,
	})
	s.ollama = newOllama(replies, o.Version)
	s.models = &openaiModels{host: s.host}
	for _, p := range o.Predictors {
		s.models.others = append(s.models.others, modelObject{
			ID: p.Name, Object: "model", Created: p.Made.Unix(), OwnedBy: "hippo", Loaded: true, Predict: p.About,
		})
	}
	s.files = &openaiFiles{readTimeout: o.ReadTimeout, allowed: s.allowedLine}
	if err := s.SetKeys(o.Keys); err != nil {
		return nil, err
	}
	s.mux = s.routes()
	s.handler = s.withMiddleware(s.by(s.mux))
	if err := s.openFiles(); err != nil {
		return nil, err
	}
	return s, nil
}

// check returns an error if the options contradict themselves.
func (o *Options) check(models []*Model) error {
	if len(models) == 0 && o.Library == nil && len(o.Predictors) == 0 {
		return fmt.Errorf("serve: no model")
	}
	names := map[string]bool{}
	for _, m := range models {
		if names[m.name] {
			return fmt.Errorf("serve: two models have the name %q", m.name)
		}
		names[m.name] = true
	}
	for _, v := range o.Views {
		if len(v.Tokens) == 0 {
			return fmt.Errorf("serve: the view %q has no number of tokens", v.Name)
		}
	}
	for _, p := range o.Predictors {
		if names[p.Name] {
			return fmt.Errorf("serve: two models have the name %q", p.Name)
		}
		names[p.Name] = true
	}
	return nil
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
		{"GET /v1/models", ScopeModels, s.models.listModels},
		{"GET /v1/models/{name...}", ScopeModels, s.models.showModel},
		{"POST /v1/completions", ScopeCompletions, s.texts.completions},
		{"POST /v1/chat/completions", ScopeCompletions, s.texts.chatCompletions},
		{"POST /v1/responses", ScopeCompletions, s.responses.responses},
		{"GET /v1/responses/{id}", ScopeCompletions, s.responses.showResponse},
		{"DELETE /v1/responses/{id}", ScopeCompletions, s.responses.deleteResponse},
		{"GET /v1/responses/{id}/input_items", ScopeCompletions, s.responses.responseInputItems},
		{"POST /v1/responses/{id}/cancel", ScopeCompletions, s.responses.cancelResponse},
		{"POST /v1/sessions", ScopeCompletions, s.sessions.createSession},
		{"GET /v1/sessions", ScopeCompletions, s.sessions.listSessions},
		{"POST /v1/sessions/import", ScopeCompletions, s.sessions.importSession},
		{"GET /v1/sessions/{id}", ScopeCompletions, s.sessions.showSession},
		{"DELETE /v1/sessions/{id}", ScopeCompletions, s.sessions.deleteSession},
		{"POST /v1/sessions/{id}/append", ScopeCompletions, s.sessions.appendSession},
		{"POST /v1/sessions/{id}/generate", ScopeCompletions, s.sessions.generateInSession},
		{"POST /v1/sessions/{id}/fork", ScopeCompletions, s.sessions.forkSession},
		{"POST /v1/sessions/{id}/mark", ScopeCompletions, s.sessions.markSession},
		{"POST /v1/sessions/{id}/rewind", ScopeCompletions, s.sessions.rewindSession},
		{"POST /v1/sessions/{id}/score", ScopeCompletions, s.sessions.scoreInSession},
		{"GET /v1/sessions/{id}/export", ScopeCompletions, s.sessions.exportSession},
		{"GET /v1/sessions/{id}/explain", ScopeCompletions, s.sessions.explainSession},
		{"POST /v1/embeddings", ScopeCompletions, s.texts.embeddings},
		{"POST /v1/predict", ScopePredict, s.rows.predict},
		{"POST /v1/predict/stream", ScopePredict, s.rows.predictStream},
		{"POST /api/embed", ScopeCompletions, s.ollama.ollamaEmbed},
		{"POST /api/embeddings", ScopeCompletions, s.ollama.ollamaEmbeddings},
		{"POST /v1/files", ScopeFiles, s.files.uploadFile},
		{"GET /v1/files", ScopeFiles, s.files.listFiles},
		{"GET /v1/files/{id}", ScopeFiles, s.files.showFile},
		{"GET /v1/files/{id}/content", ScopeFiles, s.files.fileContent},
		{"DELETE /v1/files/{id}", ScopeFiles, s.files.deleteFile},
		{"POST /v1/batches", ScopeFiles, s.files.createBatch},
		{"GET /v1/batches", ScopeFiles, s.files.listBatches},
		{"GET /v1/batches/{id}", ScopeFiles, s.files.showBatch},
		{"POST /v1/batches/{id}/cancel", ScopeFiles, s.files.cancelBatch},
		{"GET /tokenizer_info", ScopeTokenize, s.texts.tokenizerInfo},
		{"POST /tokenize", ScopeTokenize, s.texts.tokenize},
		{"POST /detokenize", ScopeTokenize, s.texts.detokenize},
		{"POST /api/generate", ScopeCompletions, s.ollama.ollamaGenerate},
		{"POST /api/chat", ScopeCompletions, s.ollama.ollamaChat},
		{"GET /api/tags", ScopeModels, s.ollama.ollamaModels},
		{"GET /api/ps", ScopeModels, s.ollama.ollamaLoaded},
		{"POST /api/show", ScopeModels, s.ollama.ollamaShow},
		{"POST /api/pull", ScopeAdmin, s.ollama.ollamaPull},
		{"DELETE /api/delete", ScopeAdmin, s.ollama.ollamaDelete},
		{"GET /api/version", "", s.ollama.ollamaVersion},
		{"HEAD /{$}", "", s.ollama.ollamaHeartbeat},
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
		mux.Handle(pattern, s.routed(route{pattern, ScopeAdmin, s.ollama.ollamaRefused}))
	}
	for path, page := range s.o.Pages {
		if path == everything {
			path += "{$}" // and no other path
		}
		mux.Handle("GET "+path, s.routed(route{answer: func(c *call) error { return c.page(page) }}))
	}
	return mux
}

// Drain lets no more requests in. /ready says so, and those in flight go on, but for streams of rows, which have no end.
func (s *Server) Drain() { s.close() }

// Close lets no more requests in and ends those in flight. It does not wait for them, nor close the models (see Unload),
// but batches stand still when it returns, and sessions that could not be stored were tried once more.
func (s *Server) Close() {
	s.Drain()
	s.stop(errDraining)
	if err := s.files.files.Close(); err != nil {
		s.o.Log.Error("files", "error", err.Error())
	}
	for _, e := range s.host.loaded() {
		s.sessions.storePending(e.model)
	}
	s.sessions.storePending(nil)
}

// Preload loads a model of the library, or returns why it cannot be loaded.
func (s *Server) Preload(ctx context.Context, name string) error { return s.host.preload(ctx, name) }

// Unload lets no more requests in, unloads the models of the library as soon as they are idle, and waits for that.
func (s *Server) Unload(ctx context.Context) error {
	s.Drain()
	return s.host.close(ctx)
}

// health says that the server runs.
func (s *Server) health(c *call) error { return c.json(map[string]string{"status": "ok"}) }

// ready says whether the server takes requests.
func (s *Server) ready(c *call) error {
	if s.leaving.Load() || s.shared.Open.Err() != nil {
		return errDraining
	}
	return c.json(map[string]string{"status": "ready"})
}
