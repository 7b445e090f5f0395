// Package hippobeam runs hippo's models in pipelines of Apache Beam: Score answers the lines of hippo score, and
// Predict predicts the files of hippo predict. The command hippo-beam runs each as a pipeline of its own, on every
// runner that Beam has for Go. A worker process loads each model once, whatever the number of bundles. The folder of a
// model must be at the same path on every worker.
package hippobeam

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/batch"
	"github.com/hippo-ssm/hippo/serve/library"
	"github.com/hippo-ssm/hippo/session"
)

func init() {
	register.DoFn3x1[context.Context, string, func(string), error](&scoreFn{})
	register.Emitter1[string]()
}

// ScoreOptions are the options of Score.
type ScoreOptions struct {
	Models    []string // [NAME=]PATH: see library.Options
	Precision string   // of the weights: see hippo.Precision
	Together  int      // number of lines that are answered at a time; 0 for 16
}

// Score answers lines, in any order. The results are those of hippo score, without line numbers. A result has the
// custom_id of its line and the hash of the line that it answers.
func Score(s beam.Scope, lines beam.PCollection, o ScoreOptions) beam.PCollection {
	if o.Together < 1 {
		o.Together = 16
	}
	return beam.ParDo(s.Scope("hippobeam.Score"), &scoreFn{ScoreOptions: o}, lines)
}

// scoreFn answers lines, up to Together at a time.
type scoreFn struct {
	ScoreOptions

	job   *batch.Offline
	lines []string // lines of the bundle that are not answered yet
}

// loads counts the models that this process has loaded, for tests.
var loads, loadsMu = 0, sync.Mutex{}

// once keeps the values that a process has opened, by name.
type once[T any] struct {
	mu  sync.Mutex
	all map[string]T
}

// open returns the value with a name. It calls make if the name is not open yet.
func (o *once[T]) open(name string, make func() (T, error)) (v T, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if v, ok := o.all[name]; ok {
		return v, nil
	}
	if v, err = make(); err != nil {
		return v, err
	}
	if o.all == nil {
		o.all = map[string]T{}
	}
	o.all[name] = v
	loadsMu.Lock()
	defer loadsMu.Unlock()
	loads++
	return v, nil
}

var jobs once[*batch.Offline]

// Setup opens the models, unless this process has already opened them.
func (f *scoreFn) Setup(ctx context.Context) (err error) {
	f.job, err = jobs.open(fmt.Sprintf("%+v", f.ScoreOptions), func() (*batch.Offline, error) { return f.open(ctx) })
	return err
}

// open creates a server that does not listen.
func (f *scoreFn) open(ctx context.Context) (*batch.Offline, error) {
	lib, err := library.Open(library.Options{Models: f.Models, Precision: f.Precision, Pooling: session.PoolMean,
		KeepAlive: 100 * 365 * 24 * time.Hour})
	if err != nil {
		return nil, err
	}
	if lib.Host() == nil {
		return nil, errors.New("found networks of hippo fit alone, want a language model")
	}
	server, err := serve.New(serve.Options{Library: lib.Host(), Concurrent: f.Together})
	if err != nil {
		return nil, err
	}
	if _, err := lib.Preload(ctx, server.Preload); err != nil {
		server.Close()
		return nil, err
	}
	return &batch.Offline{By: strings.Join(append(f.Models, f.Precision), "\n"), Endpoints: server.BatchEndpoints(),
		Do: server.AnswerLine}, nil
}

// ProcessElement queues a line, and answers the queued lines when there are enough.
func (f *scoreFn) ProcessElement(ctx context.Context, line string, emit func(string)) error {
	if len(bytes.TrimSpace([]byte(line))) == 0 {
		return nil
	}
	if f.lines = append(f.lines, line); len(f.lines) < f.Together {
		return nil
	}
	return f.answer(ctx, emit)
}

// FinishBundle answers the remaining lines.
func (f *scoreFn) FinishBundle(ctx context.Context, emit func(string)) error {
	return f.answer(ctx, emit)
}

// answer answers the queued lines concurrently.
func (f *scoreFn) answer(ctx context.Context, emit func(string)) error {
	out, failed := make([]string, len(f.lines)), make([]error, len(f.lines))
	var all sync.WaitGroup
	for i, line := range f.lines {
		all.Go(func() {
			text, err := f.job.Answer(ctx, []byte(line))
			out[i], failed[i] = string(text), err
		})
	}
	all.Wait()
	f.lines = f.lines[:0]
	if err := errors.Join(failed...); err != nil {
		return err
	}
	for _, text := range out {
		emit(text)
	}
	return nil
}
