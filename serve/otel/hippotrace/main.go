// Command hippotrace serves a model as hippo serve does, and exports traces as configured by OpenTelemetry's variables:
//
//	OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 hippotrace -listen 127.0.0.1:8080 runs/tiny
//
// It shows how a program wraps a server in the middleware of package otel. It has fewer features than hippo serve.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/otel"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address and port to listen at")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: hippotrace [flags] MODEL")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "hippotrace:", err)
		os.Exit(1)
	}
}

// run serves the model of a folder until ctx is done.
func run(ctx context.Context, listen, dir string) (err error) {
	exporter, err := autoexport.NewSpanExporter(ctx) // configured by OTEL_TRACES_EXPORTER and the variables of the exporter
	if err != nil {
		return err
	}
	traces := trace.NewTracerProvider(trace.WithBatcher(exporter)) // see OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER and others
	defer func() {
		last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = errors.Join(err, traces.Shutdown(last))
	}()
	m, err := hippo.Load(dir)
	if err != nil {
		return err
	}
	const memory = 256 << 20
	texts, err := store.New(ctx, store.Options{
		Model: m.Net(), Identity: session.Identify(m.Net(), m.Tokenizer()), Memory: memory,
	})
	if err != nil {
		return err
	}
	runner := session.NewScheduler(m.Net(), session.SchedulerOptions{Waiting: 1 << 20})
	defer runner.Close()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	server, err := serve.New(serve.Options{Log: log, Middleware: otel.Middleware(traces)},
		host.NewModel(host.ModelOptions{
			Name: filepath.Base(dir), Net: m.Net(), Tokenizer: m.Tokenizer(), Runner: runner, Texts: texts,
		}))
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	log.Info("serving", "address", "http://"+l.Addr().String())
	return server.Run(ctx, l, 30*time.Second)
}
