// Package library holds the models of a server: folders, .gguf files and published models of the hub's cache, their
// adapters, and networks of package fit. It describes them without reading their weights, and loads a model when the
// host requests it.
package library

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/release/hub"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/rows"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
)

// Options select the models of a server and configure how they are loaded.
type Options struct {
	Models   []string // [NAME=]PATH, or names of published models; if empty, all models of the hub's cache
	Adapters []string // [[MODEL:]NAME=]DIR
	// AdapterDir is the folder whose adapters clients may add and remove; "" for none.
	AdapterDir string
	// Find returns the path of a model by its name: by default a path, or a model of the hub's cache.
	Find func(name string) (path string, err error)

	Precision string          // of the weights: see hippo.Precision
	States    string          // precision of the states: see hippo.StatePrecision; "" for float32
	Pooling   session.Pooling // of embeddings
	Draft     string          // the model that drafts replies: see hippo.Model.Draft
	KeepAlive time.Duration   // how long an idle model stays loaded: see host.Library
	Memory    int64           // bytes for the weights of loaded models; 0: 3/4 of the free memory
	Preload   bool            // load all models at the start, not only the first one
	Pull      bool            // allow clients to fetch and delete published models
	Texts     int64           // bytes for the prompt cache
	Store     string          // folder for the prompt cache; "": none
	Bucket    store.Bucket    // for the prompt cache, in place of Store; nil: none
	Disk      int64           // bytes for the prompt cache in Store or Bucket; 0: no limit
	Log       *slog.Logger

	// Device opens the device on which the models compute. It is called again after the device has failed. nil selects
	// the processor.
	Device func() (engine.Backend, error)
	Faster bool // put a model on the device only if that is faster: see hippo.OnFaster
}

// Library holds the models of a server.
type Library struct {
	Predictors []rows.Predictor // the networks of package fit

	Options
	host host.Library

	adding sync.Mutex // held while adapters are added and removed
	mu     sync.Mutex
	named  []namedModel              // never changed, only replaced
	known  map[string]host.ModelInfo // descriptions of the named models
	loaded map[string]*hippo.Model   // by name, for their adapters
	small  *hippo.Model              // the model of Draft; nil until it is loaded
	on     engine.Backend            // the device that Device opened last
}

// namedModel is a model of the Options. base is the base model of an adapter, or "" for other models.
type namedModel struct{ name, path, base string }

// Open returns a library with the models of the options. It loads none, but checks the files of named ones.
func Open(o Options) (*Library, error) {
	l := &Library{Options: o, known: map[string]host.ModelInfo{}, loaded: map[string]*hippo.Model{}}
	if l.Find == nil {
		l.Find = func(name string) (string, error) {
			return hub.Resolve(name, hub.Found.Path, func(err error) error { return err })
		}
	}
	if err := l.openPredictors(); err != nil {
		return nil, err
	}
	if l.Host() == nil {
		return l, nil
	}
	l.host = host.Library{
		Models: l.list, Show: l.show, Load: l.load, KeepAlive: o.KeepAlive, Memory: o.Memory, Texts: o.Texts,
	}
	if free, ok := status.FreeMemory(); ok && o.Memory == 0 {
		l.host.Memory = int64(free.Bytes / 4 * 3)
	}
	if o.Pull {
		l.host.Pull, l.host.Delete = pull, l.remove
	}
	if o.AdapterDir != "" {
		l.host.AddAdapter, l.host.RemoveAdapter = l.addAdapter, l.removeAdapter
	}
	for _, arg := range l.Models {
		if err := l.add(arg); err != nil {
			return nil, err
		}
	}
	if err := l.addAdapters(o.Adapters); err != nil {
		return nil, err
	}
	for _, n := range l.named {
		if l.isPredictor(n.name) {
			return nil, errSameName(n.path, n.name)
		}
	}
	return l, nil
}

// Host returns the language models, or nil if there are only predictors.
func (l *Library) Host() *host.Library {
	if len(l.Models) == 0 && len(l.Predictors) > 0 && !l.Pull && len(l.Adapters) == 0 {
		return nil
	}
	return &l.host
}

// cached reports whether the models of the hub's cache are also served.
func (l *Library) cached() bool { return l.Pull || len(l.Models) == 0 }

// add adds a language model of the Options.
func (l *Library) add(arg string) error {
	name, path := splitName(arg)
	if slices.ContainsFunc(l.named, func(other namedModel) bool { return other.name == name }) {
		return errSameName(arg, name)
	}
	l.named = append(l.named, namedModel{name: name, path: path})
	info, err := l.describe(name, path)
	if err == nil {
		_, err = l.show(context.Background(), info)
	}
	return err
}

// splitName returns the name of a model in requests and its path. arg is NAME=PATH, the name of a published model, or a
// path, whose last part becomes the name.
func splitName(arg string) (name, path string) {
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
	return strings.TrimSuffix(filepath.Base(full), ".gguf"), arg
}

// errSameName is the error of two models with one name.
func errSameName(arg, name string) error {
	return fmt.Errorf("%s: found two models with the name %q, want NAME=PATH with another", arg, name)
}

// pathOf returns the path of a named model. The model must not be an adapter.
func (l *Library) pathOf(name string) string {
	all := l.all()
	return all[slices.IndexFunc(all, func(n namedModel) bool { return n.name == name })].path
}

// Preload calls load for the first named model, or for all with Options.Preload. It returns the names of all models.
func (l *Library) Preload(ctx context.Context, load func(ctx context.Context, name string) error) ([]string, error) {
	var names []string
	if l.Host() != nil {
		var err error
		if names, err = l.preload(ctx, load); err != nil {
			return nil, err
		}
	}
	for _, p := range l.Predictors {
		names = append(names, p.Name)
	}
	return names, nil
}

func (l *Library) preload(ctx context.Context, load func(ctx context.Context, name string) error) ([]string, error) {
	all, err := l.list(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 && !l.Pull {
		cache, err := hub.DefaultCache()
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("found no models in %s, want some: hippo pull NAME fetches one, and hippo serve MODEL "+
			"takes a folder or a file", cache.Dir)
	}
	var names []string
	var need int64
	for _, info := range all {
		names = append(names, info.Name)
		need += info.Memory
	}
	now := names[:min(1, len(l.all()))]
	if l.Options.Preload {
		now = names
		if most := l.host.Memory; most > 0 && need > most {
			return nil, fmt.Errorf("preload: the weights of %d models need about %s, and models have %s: want more "+
				"--max_memory, or fewer models", len(all), status.Bytes(need), status.Bytes(most))
		}
	}
	for _, name := range now {
		if err := load(ctx, name); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// list describes all models.
func (l *Library) list(context.Context) (all []host.ModelInfo, err error) {
	for _, n := range l.all() {
		info, err := l.describeNamed(n)
		if err != nil { // its files were removed or are being written: a loaded model stays in use
			l.mu.Lock()
			info = l.known[n.name]
			l.mu.Unlock()
		}
		all = append(all, info)
	}
	if !l.cached() {
		return all, nil
	}
	cache, err := hub.DefaultCache()
	if err != nil {
		return nil, err
	}
	entries, err := cache.List()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Problem != "" {
			continue
		}
		info := host.ModelInfo{
			Name: e.Name, Path: e.Path, Bytes: e.Bytes, Modified: e.Pulled, Family: e.Family,
			Format: cmp.Or(ending(e.Path), "safetensors"), Parameters: e.Parameters, Precision: e.Precision,
			Digest: digest(fmt.Sprintln(e.Name, e.Commit, filepath.Base(e.Path), e.Bytes)),
		}
		info.Memory = l.weights(info)
		all = append(all, info)
	}
	return all, nil
}
