package library

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
)

// textsFolder is the folder of the prompt cache in Options.Store. The models of a server share it, and models with the
// same weights, precision and tokenizer share cached texts.
const textsFolder = "texts"

// load loads a model. An adapter shares the weights of its base model, which must be loaded.
func (l *Library) load(ctx context.Context, info host.ModelInfo) (*host.Model, error) {
	m, err := l.read(info)
	if err != nil {
		return nil, err
	}
	if told := m.Net().Divided(); told != "" {
		l.Log.Info("model divided", "model", info.Name, "how", told)
	}
	l.mu.Lock()
	l.loaded[info.Name] = m
	l.mu.Unlock()
	closed := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.loaded, info.Name)
	}
	served, err := l.hosted(ctx, info.Name, m, closed)
	if err != nil {
		closed()
	}
	return served, err
}

// read reads a model with its weights.
func (l *Library) read(info host.ModelInfo) (*hippo.Model, error) {
	if info.Base != "" {
		l.mu.Lock()
		base := l.loaded[info.Base]
		l.mu.Unlock()
		if base == nil {
			return nil, fmt.Errorf("found no model %s that is loaded, want it for its adapter", info.Base)
		}
		return base.WithAdapter(info.Path)
	}
	path, err := l.Find(info.Path)
	if err != nil {
		return nil, err
	}
	base, err := hippo.AdapterBase(path, l.Find)
	if err != nil {
		return nil, err
	}
	on, err := l.device()
	if err != nil {
		return nil, err
	}
	options := []hippo.LoadOption{hippo.Precision(l.Precision), hippo.On(on)}
	if l.States != "" {
		options = append(options, hippo.StatePrecision(l.States))
	}
	if l.Faster && on != nil {
		options = append(options, hippo.OnFaster(on, func(told string) {
			l.Log.Info("device chosen", "model", info.Name, "why", told)
		}))
	}
	if base != path {
		options = append(options, hippo.Adapter(path))
	}
	return hippo.Load(base, options...)
}

// device returns the device on which models compute, nil for the processor.
func (l *Library) device() (engine.Backend, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Device == nil || l.on != nil && engine.Failure(l.on) == nil {
		return l.on, nil
	}
	if failed, ok := l.on.(interface{ Close() }); ok {
		failed.Close()
	}
	on, err := l.Device()
	if err != nil {
		return nil, host.ErrDevice(fmt.Sprintf("the device of the server cannot be opened: %v", err))
	}
	l.on = on
	return on, nil
}

// readDraft returns the model that drafts the replies of all others. It is loaded once and stays loaded.
func (l *Library) readDraft(name string) (*hippo.Model, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.small != nil {
		return l.small, nil
	}
	path, err := l.Find(name)
	if err != nil {
		return nil, err
	}
	l.small, err = hippo.Load(path, hippo.Precision(l.Precision))
	return l.small, err
}

// hosted returns a loaded model with a scheduler, a prompt cache and its chat settings. closed is called when the model
// is unloaded.
func (l *Library) hosted(ctx context.Context, name string, m *hippo.Model, closed func()) (*host.Model, error) {
	settings, err := chat.Load(m.Dir(), m.Tokenizer())
	if err != nil {
		return nil, err
	}
	draft, err := m.Draft(l.Draft, l.readDraft)
	if err != nil {
		return nil, err
	}
	texts, err := l.texts(ctx, m)
	if err != nil {
		return nil, err
	}
	// The scheduler must not limit waiting texts: the server has already admitted their request, which may have
	// several.
	runner := session.NewScheduler(m.Net(), session.SchedulerOptions{Waiting: math.MaxInt32})
	return host.NewModel(host.ModelOptions{
		Name: name, Net: m.Net(), Tokenizer: m.Tokenizer(), Settings: settings, Runner: runner, Texts: texts,
		Pooling: l.Pooling, Draft: draft,
		OnClose: func() {
			texts.Close()
			runner.Close()
			closed()
		},
	}), nil
}

// texts returns the prompt cache of a model. The host sets the cache's share of the memory.
func (l *Library) texts(ctx context.Context, m *hippo.Model) (*store.Store, error) {
	options := store.Options{
		Model: m.Net(), Identity: session.Identify(m.Net(), m.Tokenizer()), Memory: l.Texts, Disk: l.Disk,
		Report: func(err error) {
			said := "the prompt cache could not be written to disk"
			if errors.Is(err, store.ErrTooLarge) {
				said = "the prompt cache does not keep what is read: --memory or --store gives it room"
			}
			l.Log.Warn(said, "error", err.Error())
		},
	}
	if l.Bucket != nil {
		options.Bucket = l.Bucket
	} else if l.Store != "" {
		if err := os.MkdirAll(l.Store, 0o700); err != nil { // the texts of clients are private
			return nil, fmt.Errorf("--store: %w", err)
		}
		options.Bucket = store.Folder(filepath.Join(l.Store, textsFolder))
	}
	return store.New(ctx, options)
}
