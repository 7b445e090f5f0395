// Package serve serves models over HTTP, with the endpoints of OpenAI, Anthropic, Ollama and evaluation harnesses. A
// Server is an http.Handler. It has the routes, API keys, limits, metrics and TLS, and opens no port. The packages
// below it host the models and implement the dialects.
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

	"github.com/hippo-ssm/hippo/serve/anthropic"
	"github.com/hippo-ssm/hippo/serve/batch"
	"github.com/hippo-ssm/hippo/serve/fleet"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/ollama"
	"github.com/hippo-ssm/hippo/serve/openai"
	"github.com/hippo-ssm/hippo/serve/records"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/serve/rows"
	"github.com/hippo-ssm/hippo/serve/sessions"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
)

// Options are the settings of a Server. A limit below 1 means the default given here.
type Options struct {
	MaxBody    int64 // bytes of the body of a request: 32 MiB
	MaxPrompt  int   // ids of a prompt: 1,048,576
	MaxPrompts int   // prompts of a request: 2,048
	MaxTokens  int   // ids of a reply: 16,384
	MaxChoices int   // n and best_of of a request: 128

	Concurrent int           // requests that run at a time: 64
	Queue      int           // requests that are queued: 256
	QueueWait  time.Duration // time after which a queued request is refused: 1 minute

	MaxRows    int           // rows of a request for predictions: 100,000
	MaxStreams int           // streams of rows at a time: 256
	StreamIdle time.Duration // maximum time between two rows of a stream: 5 minutes

	ReadTimeout  time.Duration // for a body to arrive: 30 seconds
	WriteTimeout time.Duration // for a client to read what was sent: 15 seconds
	MaxUnread    int           // bytes of a reply that are buffered for a client: 4 MiB

	// Store is the folder for clients' responses and sessions, which several servers may share. If it is empty, they
	// are kept in memory, in at most StateMemory bytes: 256 MiB.
	Store       string
	StateMemory int64
	// Bucket, unless it is nil, replaces the folders Store and Files.Dir. Several servers may share it: see package
	// fleet. A server may take over what another has locked if its heartbeat stops for Term: 10 seconds.
	Bucket       store.Shared
	Term         time.Duration
	MaxResponses int           // per client; the oldest are removed first: 1,000
	MaxSessions  int           // per client: 100
	SessionBytes int64         // of all sessions of a client, and of all its responses: 4 GiB
	MaxImport    int64         // bytes of an imported session: 256 MiB
	KeepFor      time.Duration // time after which a response, an unused session or a state is removed: 30 days

	// Signer signs states and receipts. If it is nil, the server creates a key that is lost when it stops. States of
	// clients must be signed by Signer or by a key of Trust.
	Signer *session.Signer
	Trust  session.Trust

	// Files has the folder and the limits of clients' files and batches. Without a Dir they are kept in memory.
	Files batch.Options

	// Libraries are folders of texts that requests can mount, in addition to those that clients store.
	Libraries []sessions.Library

	// Keys are the API keys of the clients; without any, every request is admitted. SetKeys replaces them.
	Keys []Key
	// ShareCache makes all keys share one prompt cache. A client can then find out whether another has sent a text, and
	// guess it piece by piece, so use it only for clients that trust each other.
	ShareCache bool
	// Origins are the origins of other pages that may use the server, such as https://chat.example; "*" for any.
	Origins []string
	// Hosts are the allowed Host headers of requests, "*" for any. By default, a server without keys allows localhost
	// and IP addresses only. This prevents web pages opened on this machine from using the server through a domain name
	// of their own.
	Hosts []string
	// Library has models that are loaded when a request needs them; nil for no library.
	Library *host.Library
	// Predictors are networks for rows of users' data.
	Predictors []rows.Predictor
	// Pages respond to GET on their paths, without a key. They are for browsers.
	Pages map[string]http.Handler
	// Views explain sessions. The first is shown if a request names none.
	Views    []sessions.View
	ViewTime time.Duration // maximum time of a view: 2 minutes
	// Version is the version of the program.
	Version string
	// Log gets a line for every request, never with its content; nil for no log.
	Log *slog.Logger

	// TLS has the certificates of the server; nil for plain HTTP. See LoadCertificate.
	TLS *tls.Config
	// DrainDelay is the time in which Run still accepts requests at shutdown while /ready reports the shutdown. A load
	// balancer may need that long to send requests elsewhere.
	DrainDelay time.Duration
	// Middleware, unless it is nil, wraps the handler of all requests.
	Middleware func(http.Handler) http.Handler
}

// Server is an http.Handler that serves models.
type Server struct {
	o         Options
	shared    request.Env
	Host      *host.Host
	Admission *request.Admission

	texts     *openai.Texts
	Responses *openai.Responses
	Files     *openai.Files
	models    *openai.Models
	Sessions  *sessions.Handler
	Anthropic *anthropic.Handler
	Batches   *anthropic.Batches
	ollama    *ollama.Handler
	Rows      *rows.Handler

	forms   map[string]request.Form // by the pattern of their endpoint
	mux     *http.ServeMux
	handler http.Handler // with middleware
	metrics *metrics
	fleet   *fleet.Store // nil unless the server shares a bucket
	keysMu  sync.Mutex   // held while keys are replaced
	keys    atomic.Pointer[keyring]
	leaving atomic.Bool // the server is shutting down
	close   context.CancelFunc
	running context.Context // done when requests in flight must end
	stop    context.CancelCauseFunc
}

// New returns a server of the given models, which stay loaded, and of the models of a library. It needs at least one
// model, a library or a predictor. A request that names no model gets the first one.
func New(o Options, models ...*host.Model) (*Server, error) {
	if err := o.check(models); err != nil {
		return nil, err
	}
	o.fill()
	s := &Server{o: o, Admission: request.NewAdmission(o.Concurrent, o.Queue, o.QueueWait)}
	s.shared.MaxBody, s.shared.WriteTimeout, s.shared.MaxUnread = o.MaxBody, o.WriteTimeout, o.MaxUnread
	s.shared.AllBodies = request.NewBodies(o.MaxBody)
	s.shared.Open, s.close = context.WithCancel(context.Background())
	s.running, s.stop = context.WithCancelCause(context.Background())
	s.Rows = rows.New(rows.Options{
		Predictors: o.Predictors, MaxRows: o.MaxRows, MaxStreams: o.MaxStreams, StreamIdle: o.StreamIdle,
		Queue:     o.Queue,
		QueueWait: o.QueueWait,
	})
	s.metrics = newMetrics(s)
	s.shared.Counters = s.metrics
	s.Host = host.New(host.Options{
		Queue: o.Queue, QueueWait: o.QueueWait, Running: s.running, Other: s.Rows.NotText, Changed: s.metrics.changed,
		Unloading: func(m *host.Model) { s.Sessions.StoreUnsaved(m) }, Log: o.Log,
	}, o.Library, models)
	replies := reply.Service{Host: s.Host, Admit: s.Admission, Limits: reply.Limits{
		MaxPrompt: o.MaxPrompt, MaxPrompts: o.MaxPrompts, MaxTokens: o.MaxTokens, MaxChoices: o.MaxChoices,
	}, Signer: o.Signer, Version: o.Version}
	left := records.New(o.Store, o.StateMemory, o.Log)
	if o.Bucket != nil {
		var err error
		if s.fleet, err = fleet.Open(o.Bucket, fleet.Options{Term: o.Term}); err != nil {
			return nil, err
		}
		left = records.Shared(s.fleet, o.Log)
	}
	s.Sessions = sessions.New(replies, left, sessions.Options{
		MaxSessions: o.MaxSessions, MaxBytes: o.SessionBytes, MaxImport: o.MaxImport, KeepFor: o.KeepFor,
		Queue:     o.Queue,
		QueueWait: o.QueueWait, Views: o.Views, ViewTime: o.ViewTime, Signer: o.Signer, Trust: o.Trust, Log: o.Log,
		Libraries: o.Libraries,
	})
	replies.Library = s.Sessions
	s.texts = &openai.Texts{Service: replies, Places: o.Concurrent}
	s.Responses = openai.NewResponses(replies, left, openai.ResponsesOptions{
		MaxResponses: o.MaxResponses, MaxBytes: o.SessionBytes, KeepFor: o.KeepFor,
		Running: s.running, Log: o.Log,
	})
	s.Anthropic, s.ollama = anthropic.New(replies), ollama.New(replies)
	s.models = &openai.Models{Host: s.Host}
	for _, p := range o.Predictors {
		about := openai.NewModel(p.Name, p.Made)
		about.Loaded, about.Predict = true, p.About
		s.models.Others = append(s.models.Others, about)
	}
	s.Files = &openai.Files{ReadTimeout: o.ReadTimeout, Allowed: s.allowedLine}
	s.Batches = &anthropic.Batches{Allowed: s.allowedLine}
	if err := s.SetKeys(o.Keys); err != nil {
		return nil, err
	}
	s.forms = s.formsOf()
	s.mux = s.routes()
	s.handler = s.withMiddleware(s.by(s.mux))
	if err := s.openFiles(); err != nil {
		return nil, err
	}
	return s, nil
}

// check returns an error if the options are contradictory.
func (o *Options) check(models []*host.Model) error {
	if len(models) == 0 && o.Library == nil && len(o.Predictors) == 0 {
		return fmt.Errorf("serve: no model")
	}
	names := map[string]bool{}
	for _, m := range models {
		if names[m.Name] {
			return fmt.Errorf("serve: two models have the name %q", m.Name)
		}
		names[m.Name] = true
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

// fill sets the limits that are not given.
func (o *Options) fill() {
	fill(map[*int]int{
		&o.MaxPrompt: 1 << 20, &o.MaxPrompts: 2048, &o.MaxTokens: 16384, &o.MaxChoices: 128, &o.Concurrent: 64,
		&o.MaxRows: 100_000, &o.MaxStreams: 256, &o.Queue: 256, &o.MaxUnread: 4 << 20, &o.MaxResponses: 1000,
		&o.MaxSessions: 100,
	})
	fill(map[*time.Duration]time.Duration{
		&o.QueueWait: time.Minute, &o.ReadTimeout: 30 * time.Second, &o.WriteTimeout: 15 * time.Second,
		&o.KeepFor: 30 * 24 * time.Hour, &o.ViewTime: 2 * time.Minute, &o.StreamIdle: 5 * time.Minute,
	})
	fill(map[*int64]int64{
		&o.MaxBody: 32 << 20, &o.StateMemory: 256 << 20, &o.SessionBytes: 4 << 30, &o.MaxImport: 256 << 20,
	})
	if o.Signer == nil {
		o.Signer = session.NewSigner("")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// fill sets the limits below 1 to their defaults.
func fill[T int | int64 | time.Duration](defaults map[*T]T) {
	for limit, n := range defaults {
		if *limit < 1 {
			*limit = n
		}
	}
}

// route is an endpoint: method and path, the scope that a key needs ("" if no key is needed), and the handler.
type route struct {
	pattern string
	scope   Scope
	handler func(*request.Call) error
}

// metricsRoute is the endpoint of the metrics.
const metricsRoute = "GET /metrics"

// endpoints lists all endpoints.
func (s *Server) endpoints() []route {
	return []route{
		{"GET /health", "", s.health},
		{"GET /ready", "", s.ready},
		{metricsRoute, ScopeMetrics, s.metricsPage},
		{"GET /v1/models", ScopeModels, s.models.List},
		{"GET /v1/models/{name...}", ScopeModels, s.models.Show},
		{"POST /v1/completions", ScopeCompletions, s.texts.Completions},
		{"POST /v1/chat/completions", ScopeCompletions, s.texts.ChatCompletions},
		{"POST /v1/messages", ScopeCompletions, s.Anthropic.Messages},
		{"POST /v1/messages/count_tokens", ScopeCompletions, s.Anthropic.CountTokens},
		{"POST /v1/messages/batches", ScopeFiles, s.Batches.Create},
		{"GET /v1/messages/batches", ScopeFiles, s.Batches.List},
		{"GET /v1/messages/batches/{id}", ScopeFiles, s.Batches.Show},
		{"DELETE /v1/messages/batches/{id}", ScopeFiles, s.Batches.Delete},
		{"POST /v1/messages/batches/{id}/cancel", ScopeFiles, s.Batches.Cancel},
		{"GET /v1/messages/batches/{id}/results", ScopeFiles, s.Batches.Results},
		{"POST /v1/responses", ScopeCompletions, s.Responses.Create},
		{"POST /v1/responses/input_tokens", ScopeCompletions, s.Responses.InputTokens},
		{"POST /v1/responses/compact", ScopeCompletions, s.Responses.Compact},
		{"GET /v1/responses/{id}", ScopeCompletions, s.Responses.Show},
		{"DELETE /v1/responses/{id}", ScopeCompletions, s.Responses.Delete},
		{"GET /v1/responses/{id}/input_items", ScopeCompletions, s.Responses.InputItems},
		{"POST /v1/responses/{id}/cancel", ScopeCompletions, s.Responses.Cancel},
		{"POST /v1/conversations", ScopeCompletions, s.Responses.CreateConversation},
		{"GET /v1/conversations/{id}", ScopeCompletions, s.Responses.ShowConversation},
		{"POST /v1/conversations/{id}", ScopeCompletions, s.Responses.UpdateConversation},
		{"DELETE /v1/conversations/{id}", ScopeCompletions, s.Responses.DeleteConversation},
		{"GET /v1/conversations/{id}/items", ScopeCompletions, s.Responses.ListItems},
		{"POST /v1/conversations/{id}/items", ScopeCompletions, s.Responses.AddItems},
		{"GET /v1/conversations/{id}/items/{item}", ScopeCompletions, s.Responses.ShowItem},
		{"DELETE /v1/conversations/{id}/items/{item}", ScopeCompletions, s.Responses.DeleteItem},
		{"POST /v1/sessions", ScopeCompletions, s.Sessions.Create},
		{"GET /v1/sessions", ScopeCompletions, s.Sessions.List},
		{"POST /v1/sessions/import", ScopeCompletions, s.Sessions.Import},
		{"GET /v1/sessions/{id}", ScopeCompletions, s.Sessions.Show},
		{"DELETE /v1/sessions/{id}", ScopeCompletions, s.Sessions.Delete},
		{"POST /v1/sessions/{id}/append", ScopeCompletions, s.Sessions.Append},
		{"POST /v1/sessions/{id}/generate", ScopeCompletions, s.Sessions.Generate},
		{"POST /v1/sessions/{id}/fork", ScopeCompletions, s.Sessions.Fork},
		{"POST /v1/sessions/{id}/mark", ScopeCompletions, s.Sessions.Mark},
		{"POST /v1/sessions/{id}/rewind", ScopeCompletions, s.Sessions.Rewind},
		{"POST /v1/sessions/{id}/score", ScopeCompletions, s.Sessions.Score},
		{"GET /v1/sessions/{id}/export", ScopeCompletions, s.Sessions.Export},
		{"GET /v1/sessions/{id}/explain", ScopeCompletions, s.Sessions.Explain},
		{"POST /v1/states", ScopeCompletions, s.Sessions.CreateState},
		{"GET /v1/states", ScopeCompletions, s.Sessions.ListStates},
		{"GET /v1/states/{hash}", ScopeCompletions, s.Sessions.GetState},
		{"PUT /v1/states/{hash}", ScopeCompletions, s.Sessions.PutState},
		{"DELETE /v1/states/{hash}", ScopeCompletions, s.Sessions.DeleteState},
		{"PUT /v1/library/{name}", ScopeCompletions, s.Sessions.PutText},
		{"GET /v1/library", ScopeCompletions, s.Sessions.ListTexts},
		{"DELETE /v1/library/{name}", ScopeCompletions, s.Sessions.DeleteText},
		{"POST /v1/embeddings", ScopeCompletions, s.texts.Embeddings},
		{"POST /v1/predict", ScopePredict, s.Rows.Predict},
		{"POST /v1/predict/stream", ScopePredict, s.Rows.Stream},
		{"POST /api/embed", ScopeCompletions, s.ollama.Embed},
		{"POST /api/embeddings", ScopeCompletions, s.ollama.Embeddings},
		{"POST /v1/files", ScopeFiles, s.Files.Upload},
		{"GET /v1/files", ScopeFiles, s.Files.List},
		{"GET /v1/files/{id}", ScopeFiles, s.Files.Show},
		{"GET /v1/files/{id}/content", ScopeFiles, s.Files.Content},
		{"DELETE /v1/files/{id}", ScopeFiles, s.Files.Delete},
		{"POST /v1/batches", ScopeFiles, s.Files.CreateBatch},
		{"GET /v1/batches", ScopeFiles, s.Files.ListBatches},
		{"GET /v1/batches/{id}", ScopeFiles, s.Files.ShowBatch},
		{"POST /v1/batches/{id}/cancel", ScopeFiles, s.Files.CancelBatch},
		{"GET /tokenizer_info", ScopeTokenize, s.texts.TokenizerInfo},
		{"POST /tokenize", ScopeTokenize, s.texts.Tokenize},
		{"POST /detokenize", ScopeTokenize, s.texts.Detokenize},
		{"POST /apply-template", ScopeTokenize, s.texts.ApplyTemplate},
		{"POST /v1/load_lora_adapter", ScopeAdmin, s.texts.LoadAdapter},
		{"POST /v1/unload_lora_adapter", ScopeAdmin, s.texts.UnloadAdapter},
		{"GET /lora-adapters", ScopeModels, s.texts.Adapters},
		{"GET /props", ScopeCompletions, s.texts.Props},
		{"GET /slots", ScopeModels, s.slots},
		{"GET /version", "", s.version},
		{"GET /openapi.json", "", s.openAPI},
		{"POST /api/generate", ScopeCompletions, s.ollama.Generate},
		{"POST /api/chat", ScopeCompletions, s.ollama.Chat},
		{"GET /api/tags", ScopeModels, s.ollama.Models},
		{"GET /api/ps", ScopeModels, s.ollama.Loaded},
		{"POST /api/show", ScopeModels, s.ollama.Show},
		{"POST /api/copy", ScopeAdmin, s.ollama.Copy},
		{"POST /api/pull", ScopeAdmin, s.ollama.Pull},
		{"DELETE /api/delete", ScopeAdmin, s.ollama.Delete},
		{"GET /api/version", "", s.ollama.Version},
		{"HEAD /{$}", "", s.ollama.Heartbeat},
	}
}

// refused are the endpoints of Ollama that this server lacks.
var refused = []string{"POST /api/create", "POST /api/push", "POST /api/blobs/{digest}"}

// everything is the pattern of all other paths.
const everything = "/"

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle(everything, s.routed(route{handler: s.noRoute}))
	for _, r := range s.endpoints() {
		mux.Handle(r.pattern, s.routed(r))
	}
	for _, pattern := range refused {
		mux.Handle(pattern, s.routed(route{pattern, ScopeAdmin, s.ollama.Refused}))
	}
	mux.Handle("POST /lora-adapters", s.routed(route{"POST /lora-adapters", ScopeAdmin, s.texts.ScaleAdapters}))
	for path, page := range s.o.Pages {
		if path == everything {
			path += "{$}" // this path only
		}
		mux.Handle("GET "+path, s.routed(route{handler: func(c *request.Call) error { return c.Page(page) }}))
	}
	return mux
}

// Drain stops admitting requests, and makes /ready report the shutdown. Requests in flight continue, except for streams
// of rows, which have no end.
func (s *Server) Drain() { s.close() }

// Close stops admitting requests and cancels those in flight. It does not wait for them, nor does it unload the models
// (see Unload). When it returns, batches are stopped, and unsaved sessions are stored if that is possible now.
func (s *Server) Close() {
	s.Drain()
	s.stop(request.ErrDraining)
	s.Responses.Wait(context.Background())
	if err := s.Files.Store.Close(); err != nil {
		s.o.Log.Error("files", "error", err.Error())
	}
	for _, e := range s.Host.Loaded() {
		s.Sessions.StoreUnsaved(e.Model)
	}
	s.Sessions.StoreUnsaved(nil)
	if s.fleet != nil {
		s.fleet.Close()
	}
}

// Preload loads a model of the library.
func (s *Server) Preload(ctx context.Context, name string) error { return s.Host.Preload(ctx, name) }

// Unload stops admitting requests, unloads the models of the library when they become idle, and waits until they are.
func (s *Server) Unload(ctx context.Context) error {
	s.Drain()
	return s.Host.Close(ctx)
}

// health reports that the server runs.
func (s *Server) health(c *request.Call) error { return c.JSON(map[string]string{"status": "ok"}) }

// ready reports whether the server takes requests.
func (s *Server) ready(c *request.Call) error {
	if s.leaving.Load() || s.shared.Open.Err() != nil {
		return request.ErrDraining
	}
	return c.JSON(map[string]string{"status": "ready"})
}
