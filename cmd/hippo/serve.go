package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/batch"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/library"
	"github.com/hippo-ssm/hippo/serve/sessions"
	"github.com/hippo-ssm/hippo/serve/views"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
	"github.com/hippo-ssm/hippo/web"
)

// serveOptions holds the flags of hippo serve.
type serveOptions struct {
	Listen    string   `json:"listen" help:"address and port to listen at"`
	Precision string   `json:"precision" enum:"stored,float32,bf16,int8,int4,int4min" help:"of the weights"`
	States    string   `json:"state_precision" enum:"float32,bf16" help:"of the states of Mamba-2"`
	Pooling   string   `json:"pooling" enum:"mean,last" help:"what embeddings are made of"`
	Device    string   `json:"device" help:"where to compute: cpu, gpu, gpu:1 of hippo bench devices, auto"`
	Draft     string   `json:"draft" help:"guess replies by ngram, mtp or a small model: the same ones, faster"`
	Keys      string   `json:"keys" help:"file of API keys, which hippo key writes; without it all are let in"`
	Share     bool     `json:"share_cache" help:"let all keys share the prompt cache, and so guess others' texts"`
	Hosts     []string `json:"hosts" help:"names that requests may call the server by; * for any"`
	Memory    int      `json:"memory" help:"MiB for the prompt cache; 0: none" min:"0"`
	Store     string   `json:"store" help:"folder to store it and sessions in, for the next server; or a bucket's URL"`
	Disk      int      `json:"disk" help:"most MiB of the prompt cache in the folder of --store; 0: any" min:"0"`

	MaxBody    int64 `json:"max_body" help:"most bytes of the body of a request" min:"1"`
	MaxPrompt  int   `json:"max_prompt" help:"most tokens of a prompt" min:"1"`
	MaxPrompts int   `json:"max_prompts" help:"most prompts of a request" min:"1"`
	MaxChoices int   `json:"max_choices" help:"most replies to a prompt" min:"1"`
	MaxTokens  int   `json:"max_tokens" help:"most tokens of a reply" min:"1"`
	Concurrent int   `json:"concurrent" help:"requests that run at a time" min:"1"`
	Queue      int   `json:"queue" help:"requests that wait beside those" min:"1"`

	MaxRows    int           `json:"max_rows" help:"most rows of a request for predictions" min:"1"`
	MaxStreams int           `json:"max_streams" help:"streams of rows at a time" min:"1"`
	StreamIdle time.Duration `json:"stream_idle" help:"how long a stream waits for its next row" min:"1ms"`

	MaxResponses int           `json:"max_responses" help:"stored responses of a client" min:"1"`
	MaxSessions  int           `json:"max_sessions" help:"sessions of a client" min:"1"`
	SessionMiB   int           `json:"session_mib" help:"MiB of all sessions of a client" min:"1"`
	StateMiB     int           `json:"state_mib" help:"MiB for responses and sessions without --store" min:"1"`
	ImportMiB    int           `json:"import_mib" help:"MiB of a session that a client sends" min:"1"`
	KeepFor      time.Duration `json:"keep_for" help:"how long responses and unchanged sessions are stored"`

	SigningKey string   `json:"signing_key" help:"file of the key that signs states and receipts; empty: your own"`
	Library    []string `json:"library" help:"folders of texts to mount, of hippo read --library: [KEY,KEY=]DIR"`
	Trust      []string `json:"trust" help:"further keys whose states clients may send, as hippo session signer prints"`

	Files      string `json:"files" help:"folder for files and batches of clients; in memory without it"`
	MaxFile    int64  `json:"max_file" help:"most bytes of a file that a client sends" min:"1"`
	FilesTotal int64  `json:"files_total" help:"most bytes of all files; 0: 16 GiB, or 256 MiB in memory" min:"0"`
	NoPage     bool   `json:"no_page" help:"no page for browsers"`

	Grace time.Duration `json:"grace" help:"how long replies may go on after SIGTERM"`
	Log   string        `json:"log" enum:"json,text,none" help:"form of the log, which is on standard error"`

	operations
	onDemand
}

// onDemand holds the flags of hippo serve that control how models are loaded and unloaded.
type onDemand struct {
	Preload   bool   `json:"preload" help:"load all models at the start, not only the first"`
	KeepAlive string `json:"keep_alive" help:"how long an idle model stays loaded; 0: not at all, -1: forever"`
	MaxMemory int    `json:"max_memory" help:"MiB for the weights of loaded models; 0: 3/4 of what is free" min:"0"`
	// Adapter has the form [[MODEL:]NAME=]DIR.
	Adapter []string `json:"adapter" help:"folders of adapters, each a model of its own: [[MODEL:]NAME=]DIR"`
	// AdapterDir is a folder whose adapters are added and removed by requests.
	AdapterDir string `json:"adapter_dir" help:"folder whose adapters clients may add and remove (keys: scope admin)"`
	Pull       bool   `json:"pull" help:"let clients fetch and delete published models (keys: scope admin)"`
}

func newServe() *cobra.Command {
	opt := serveOptions{
		Listen: "127.0.0.1:8080", Precision: hippo.Stored, States: statePrecisions[0], Device: onCPU, Memory: 1024,
		Disk: 10240, MaxBody: 32 << 20,
		MaxPrompt: 1 << 20, MaxPrompts: 2048, MaxChoices: 128, MaxTokens: 16384, Concurrent: 64, Queue: 256,
		MaxResponses: 1000, MaxSessions: 100, SessionMiB: 4096, StateMiB: 256, ImportMiB: 256,
		KeepFor: 30 * 24 * time.Hour, Grace: 30 * time.Second, Log: "json", Pooling: "mean", MaxFile: 100 << 20,
		MaxRows: 100_000, MaxStreams: 256, StreamIdle: 5 * time.Minute, onDemand: onDemand{KeepAlive: "5m"},
	}
	cmd := &cobra.Command{
		Use:   "serve [MODEL...]",
		Short: "Answer requests over HTTP, as OpenAI, Anthropic and Ollama do",
		Long: `Answer requests over HTTP with models: folders, .gguf files, or the names of published models. Clients of
OpenAI's interface use it unchanged at http://127.0.0.1:8080/v1, and evaluation harnesses score with it; docs/server.md
lists every endpoint. In a browser the address shows a page to talk with the models. A model is called by the last part
of its path, or as NAME=PATH says; a request that names none gets the first. Without a MODEL all are served that hippo
list shows. The folder of a network of hippo fit or hippo forecast is a MODEL, too: /v1/predict has it predict.

The first MODEL is loaded at once, the others when they are asked for. An idle model is unloaded after --keep_alive,
or when another needs its memory (--max_memory). --adapter serves an adapter as a model MODEL:NAME, NAME being the last
part of its path or what stands before =; the weights of MODEL, the only one or the one named, are in memory once.
hippo ps shows what is loaded, hippo stop unloads a model.

--draft ngram guesses that what a text repeats goes on as before, and --draft MODEL has a small model guess, for all
models: replies are the same, and what was guessed right is written faster while few requests run.

What has been read is kept in memory, and with --store in a folder, from which the next server goes on; several servers
may share it. With --store file:///DIR, or the URL of a bucket in a program that has its driver, any number of servers
on any machines share all that they keep for clients: docs/fleet.md.

The server listens on this machine only unless --listen says otherwise. Then give it --keys: hippo key makes them.
Ctrl-C and SIGTERM let no more requests in, and replies that are on their way have --grace to end; a second one ends the
program at once. SIGHUP has the keys and the certificate read again.`,
		Example: `  hippo serve runs/tiny
  hippo serve runs/tiny --store state
  hippo serve runs/tiny --store file:///mnt/shared/hippo --signing_key fleet.key   # one of several
  hippo serve runs/tiny runs/machine runs/sales      # a language model, and networks of hippo fit beside it
  hippo serve granite=models/granite-4.0-h-350m --precision int8
  hippo serve runs/tiny --adapter runs/letters --adapter poems=runs/other
  hippo serve --keep_alive 1h --max_memory 8000
  hippo key alice --keys keys.txt && hippo serve runs/tiny --keys keys.txt --listen :8080
  curl http://127.0.0.1:8080/v1/completions -d '{"prompt":"Call me"}'`,
		Args:              wantArgs(0, math.MaxInt),
		ValidArgsFunction: completeFolders,
	}
	config.Register(cmd.Flags(), &opt)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := config.Load(&opt, config.Options{Flags: cmd.Flags()})
		if err != nil {
			return err
		}
		return opt.run(cmd.Context(), args)
	}
	return cmd
}

// run serves the named models until ctx is done.
func (o *serveOptions) run(ctx context.Context, names []string) error {
	limits, err := o.limits()
	if err != nil {
		return err
	}
	if strings.Contains(o.Store, "://") {
		limits.Store = ""
		if limits.Bucket, err = store.Connect(ctx, o.Store); err != nil {
			return err
		}
	}
	lib, err := o.library(names, limits.Bucket, limits.Log)
	if err != nil {
		return err
	}
	limits.Library, limits.Predictors = lib.Host(), lib.Predictors
	server, err := serve.New(limits)
	if err != nil {
		return err
	}
	models, err := lib.Preload(ctx, server.Preload)
	if err != nil {
		return err
	}
	defer server.Close()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return err
	}
	if len(limits.Keys) == 0 && !isLocal(l.Addr()) {
		limits.Log.Warn("whoever reaches this address can use the server: there are no --keys")
	}
	limits.Log.Info("serving", "models", models, "address", o.scheme()+l.Addr().String())
	return o.operate(ctx, server, l, limits.Log)
}

// library opens the named models.
func (o *serveOptions) library(names []string, in store.Shared, log *slog.Logger) (*library.Library, error) {
	idle, err := host.ParseKeepAlive(o.KeepAlive)
	if err != nil {
		return nil, fmt.Errorf("keep_alive: %w", err)
	}
	open, err := o.device()
	if err != nil {
		return nil, err
	}
	var texts store.Bucket
	if in != nil {
		texts = store.Below(in, "texts/")
	}
	return library.Open(library.Options{
		Bucket: texts,
		Models: names, Adapters: o.Adapter, AdapterDir: o.AdapterDir, Find: modelPath, Precision: o.Precision,
		States: o.States, Pooling: session.Pooling(o.Pooling), Draft: o.Draft, KeepAlive: idle,
		Memory: int64(o.MaxMemory) << 20, Preload: o.Preload, Pull: o.Pull, Texts: int64(o.Memory) << 20,
		Store: o.Store, Disk: int64(o.Disk) << 20, Log: log, Device: open,
		Faster: o.Device == auto,
	})
}

// device returns a function that opens the device that --device names, or nil for the processor. device itself opens
// the device once, for the first call of the function.
func (o *serveOptions) device() (func() (engine.Backend, error), error) {
	if isCPU(o.Device) {
		return nil, nil
	}
	name := o.Device
	if name == auto {
		name = "gpu"
	}
	first, err := openNamed(name)
	if _, other := exitStatus(err); err != nil && !other && o.Device == auto {
		noteDevice(fmt.Sprintf("%s: %v", model.OnProcessor, err))
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if o.MaxMemory == 0 {
		o.MaxMemory = int(first.Room() / 4 * 3 >> 20)
	}
	return func() (engine.Backend, error) {
		if on := first; on != nil {
			first = nil
			return on, nil
		}
		return openNamed(name)
	}, nil
}

// limits returns the options of the server.
func (o *serveOptions) limits() (serve.Options, error) {
	limits := serve.Options{
		MaxBody: o.MaxBody, MaxPrompt: o.MaxPrompt, MaxPrompts: o.MaxPrompts, MaxTokens: o.MaxTokens,
		MaxRows: o.MaxRows, MaxStreams: o.MaxStreams, StreamIdle: o.StreamIdle,
		MaxChoices: o.MaxChoices, Concurrent: o.Concurrent, Queue: o.Queue, Hosts: o.Hosts, Version: version(),
		Store: o.Store, MaxResponses: o.MaxResponses, MaxSessions: o.MaxSessions, KeepFor: o.KeepFor,
		SessionBytes: int64(o.SessionMiB) << 20, MaxImport: int64(o.ImportMiB) << 20,
		Files:       batch.Options{Dir: o.Files, MaxFile: o.MaxFile, MaxTotal: o.FilesTotal},
		StateMemory: int64(o.StateMiB) << 20, ShareCache: o.Share,
	}
	if !o.NoPage {
		limits.Pages = web.Chat()
		maps.Copy(limits.Pages, figure.Live())
	}
	limits.Views = views.All()
	switch o.Log {
	case "json":
		limits.Log = slog.New(slog.NewJSONHandler(os.Stderr, nil))
	case "text":
		limits.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	default:
		limits.Log = slog.New(slog.DiscardHandler)
	}
	var err error
	if limits.Trust, err = session.ParseTrust(o.Trust); err != nil {
		return limits, err
	}
	if limits.Signer, err = o.signer(limits.Log); err != nil {
		return limits, err
	}
	if limits.Libraries, err = o.libraries(); err != nil {
		return limits, err
	}
	err = o.apply(&limits)
	if o.Keys == "" || err != nil {
		return limits, err
	}
	limits.Keys, err = readKeys(o.Keys)
	if err == nil && len(limits.Keys) == 0 {
		err = fmt.Errorf("%s: found no key, want at least one", o.Keys)
	}
	return limits, err
}

// signer returns the signer of the server. It works even if the user's key cannot be stored, as in a container.
func (o *serveOptions) signer(log *slog.Logger) (*session.Signer, error) {
	if o.SigningKey != "" {
		s := session.NewSigner(o.SigningKey)
		_, err := s.Public()
		return s, err
	}
	s, err := ownSigner()
	if err == nil {
		_, err = s.Public()
	}
	if err != nil {
		log.Warn("states and receipts are signed with a key that is gone with this server", "error", err.Error())
		s = session.NewSigner("")
	}
	return s, nil
}

// libraries returns the folders of texts that clients may mount, some only for clients with certain keys.
func (o *serveOptions) libraries() (all []sessions.Library, err error) {
	for _, arg := range o.Library {
		l, dir := sessions.Library{}, arg
		if keys, rest, ok := strings.Cut(arg, "="); ok {
			l.Keys, dir = strings.FieldsFunc(keys, func(c rune) bool { return c == ',' }), rest
			if len(l.Keys) == 0 {
				return nil, fmt.Errorf("library: found %q, want names of keys before =", arg)
			}
		}
		if dir == "" {
			return nil, fmt.Errorf("library: found %q, want a folder", arg)
		}
		if l.Folder, err = session.OpenFolder(dir); err == nil {
			_, err = l.Folder.Texts()
		}
		if err != nil {
			return nil, fmt.Errorf("library: %w", err)
		}
		all = append(all, l)
	}
	return all, nil
}

// readKeys reads a file of keys.
func readKeys(path string) ([]serve.Key, error) {
	data, err := disk.ReadText(path, disk.MaxText)
	if err != nil {
		return nil, err
	}
	keys, err := serve.ParseKeys(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}
