package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
	"github.com/hippo-ssm/hippo/web"
)

// serveOptions are the flags of hippo serve.
type serveOptions struct {
	Listen    string   `json:"listen" help:"address and port to listen at"`
	Precision string   `json:"precision" enum:"float32,bf16,int8" help:"of the weights: fewer bits are faster"`
	Keys      string   `json:"keys" help:"file of API keys, which hippo key writes; without it all are let in"`
	Hosts     []string `json:"hosts" help:"names that requests may call the server by; * for any"`
	Memory    int      `json:"memory" help:"MiB for what has been read, to go on from; 0: none" min:"0"`

	MaxBody    int64 `json:"max_body" help:"most bytes of the body of a request" min:"1"`
	MaxPrompt  int   `json:"max_prompt" help:"most tokens of a prompt" min:"1"`
	MaxPrompts int   `json:"max_prompts" help:"most prompts of a request" min:"1"`
	MaxChoices int   `json:"max_choices" help:"most replies to a prompt" min:"1"`
	MaxTokens  int   `json:"max_tokens" help:"most tokens of a reply" min:"1"`
	Concurrent int   `json:"concurrent" help:"requests that run at a time" min:"1"`
	Queue      int   `json:"queue" help:"requests that wait besides" min:"1"`

	NoPage bool `json:"no_page" help:"no page for browsers"`

	Grace time.Duration `json:"grace" help:"for replies to end after SIGTERM"`
	Log   string        `json:"log" enum:"json,text,none" help:"form of the log, which is on standard error"`
}

func newServe() *cobra.Command {
	opt := serveOptions{
		Listen: "127.0.0.1:8080", Precision: "float32", Memory: 1024, MaxBody: 32 << 20, MaxPrompt: 1 << 20,
		MaxPrompts: 2048, MaxChoices: 128, MaxTokens: 16384, Concurrent: 64, Queue: 256, Grace: 30 * time.Second,
		Log: "json",
	}
	cmd := &cobra.Command{
		Use:   "serve MODEL...",
		Short: "Answer requests over HTTP, as OpenAI and Ollama do",
		Long: `Answer requests over HTTP with models: folders, .gguf files, or the names of published models. Clients of
OpenAI's interface use it unchanged at http://127.0.0.1:8080/v1, and evaluation harnesses score with it; docs/server.md
lists every endpoint. In a browser the address shows a page to talk with the models. A model is called by the last part
of its path, or as NAME=PATH says; a request that names none gets the first.

The server listens on this machine only unless --listen says otherwise. Then give it --keys: hippo key makes them.
Ctrl-C and SIGTERM let no more requests in, and replies that are on their way have --grace to end.`,
		Example: `  hippo serve runs/tiny
  hippo serve granite=models/granite-4.0-h-350m --precision int8
  hippo key alice --keys keys.txt && hippo serve runs/tiny --keys keys.txt --listen :8080
  curl http://127.0.0.1:8080/v1/completions -d '{"prompt":"Call me"}'`,
		Args:              wantArgs(1, math.MaxInt),
		ValidArgsFunction: completeFolders,
	}
	config.Register(cmd.Flags(), &opt)
	completeConfig(cmd, opt)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := config.Load(&opt, config.Options{Flags: cmd.Flags()})
		if err != nil {
			return err
		}
		return opt.run(cmd.Context(), args)
	}
	return cmd
}

// run serves the models of some names until ctx is done.
func (o *serveOptions) run(ctx context.Context, names []string) error {
	limits, err := o.limits()
	if err != nil {
		return err
	}
	var models []*serve.Model
	for _, name := range names {
		m, closeModel, err := o.load(ctx, name, len(names))
		if err != nil {
			return err
		}
		defer closeModel()
		models = append(models, m)
	}
	server, err := serve.New(limits, models...)
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return err
	}
	if host, _, err := net.SplitHostPort(l.Addr().String()); err == nil && len(limits.Keys) == 0 &&
		!net.ParseIP(host).IsLoopback() {
		limits.Log.Warn("whoever reaches this address can use the server: there are no --keys")
	}
	for _, m := range models {
		limits.Log.Info("serving", "model", m.Name(), "address", "http://"+l.Addr().String())
	}
	return server.Run(ctx, l, o.Grace)
}

// limits are the options of the server.
func (o *serveOptions) limits() (serve.Options, error) {
	limits := serve.Options{
		MaxBody: o.MaxBody, MaxPrompt: o.MaxPrompt, MaxPrompts: o.MaxPrompts, MaxTokens: o.MaxTokens,
		MaxChoices: o.MaxChoices, Concurrent: o.Concurrent, Queue: o.Queue, Hosts: o.Hosts, Version: version(),
	}
	if !o.NoPage {
		limits.Pages = web.Chat()
	}
	switch o.Log {
	case "json":
		limits.Log = slog.New(slog.NewJSONHandler(os.Stderr, nil))
	case "text":
		limits.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	default:
		limits.Log = slog.New(slog.DiscardHandler)
	}
	if o.Keys == "" {
		return limits, nil
	}
	var err error
	limits.Keys, err = readKeys(o.Keys)
	if err == nil && len(limits.Keys) == 0 {
		err = fmt.Errorf("%s: found no key, want at least one", o.Keys)
	}
	return limits, err
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

// load loads one of several models. The function it returns ends those who run it.
func (o *serveOptions) load(ctx context.Context, arg string, of int) (*serve.Model, func(), error) {
	name, path := modelNames(arg)
	dir, err := modelPath(path)
	if err != nil {
		return nil, nil, err
	}
	m, err := hippo.Load(dir, hippo.Precision(o.Precision))
	if err != nil {
		return nil, nil, err
	}
	settings, err := chatSettings(m)
	if err != nil {
		return nil, nil, err
	}
	texts, err := store.New(ctx, store.Options{
		Model: m.Net(), Identity: session.Identify(m.Net(), m.Tokenizer()), Memory: int64(o.Memory) << 20 / int64(of),
	})
	if err != nil {
		return nil, nil, err
	}
	// Whoever may come in has been let in by the server, and may work at several texts at once.
	runner := session.NewScheduler(m.Net(), session.SchedulerOptions{Waiting: math.MaxInt32})
	return serve.NewModel(serve.ModelOptions{
		Name: name, Net: m.Net(), Tokenizer: m.Tokenizer(), Settings: settings, Runner: runner, Texts: texts,
	}), runner.Close, nil
}

// modelNames are what requests call a model, and where it is: NAME=PATH, or a path, whose last part is the name, or the
// name of a published model.
func modelNames(arg string) (name, path string) {
	if name, path, ok := strings.Cut(arg, "="); ok && name != "" {
		return name, path
	}
	if _, err := os.Stat(arg); errors.Is(err, fs.ErrNotExist) {
		return arg, arg
	}
	full, err := filepath.Abs(arg)
	if err != nil {
		full = arg
	}
	return strings.TrimSuffix(filepath.Base(full), ggufEnding), arg
}
