package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/release/hub"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
)

// onDemand are the flags of hippo serve about models that come and go.
type onDemand struct {
	Preload   bool   `json:"preload" help:"load all models at the start, not only the first"`
	KeepAlive string `json:"keep_alive" help:"how long an idle model stays loaded; 0: not at all, -1: forever"`
	MaxMemory int    `json:"max_memory" help:"MiB for the weights of loaded models; 0: 3/4 of what is free" min:"0"`
	// Adapter is [[MODEL:]NAME=]DIR.
	Adapter []string `json:"adapter" help:"folders of adapters, each a model of its own: [[MODEL:]NAME=]DIR"`
	Pull    bool     `json:"pull" help:"let clients fetch and delete published models (keys: scope admin)"`
}

// library is where hippo serve gets its models.
type library struct {
	host.Library
	o      *serveOptions
	named  []namedModel
	cached bool // the models of the hub's cache, too

	mu     sync.Mutex
	known  map[string]host.ModelInfo // what was told of the named ones
	loaded map[string]*hippo.Model   // by name, for the adapters over them
}

// namedModel is a model of the command line. base is the name of the model that it is an adapter of, "" for none.
type namedModel struct{ name, path, base string }

// library returns the models of some names, or else those of the hub's cache. It checks the files of those that have a
// name.
func (o *serveOptions) library(names []string, log *slog.Logger) (*library, error) {
	l := &library{o: o, cached: o.Pull || len(names) == 0, known: map[string]host.ModelInfo{},
		loaded: map[string]*hippo.Model{}}
	l.Library = host.Library{
		Models: l.list, Show: l.show, Texts: int64(o.Memory) << 20, Memory: int64(o.MaxMemory) << 20,
		Load: func(ctx context.Context, info host.ModelInfo) (*host.Model, error) {
			return l.load(ctx, info, log)
		},
	}
	var err error
	if l.KeepAlive, err = host.ParseKeepAlive(o.KeepAlive); err != nil {
		return nil, fmt.Errorf("keep_alive: %w", err)
	}
	if free, ok := status.FreeMemory(); ok && o.MaxMemory == 0 {
		l.Memory = int64(free.Bytes / 4 * 3)
	}
	if o.Pull {
		l.Pull, l.Delete = pullFor, l.remove
	}
	for _, arg := range names {
		name, path := modelNames(arg)
		if slices.ContainsFunc(l.named, func(other namedModel) bool { return other.name == name }) {
			return nil, errSameName(arg, name)
		}
		l.named = append(l.named, namedModel{name: name, path: path})
		info, err := l.describe(name, path)
		if err == nil {
			_, err = l.show(context.Background(), info)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := l.addAdapters(o.Adapter); err != nil {
		return nil, err
	}
	return l, nil
}

// preload loads the first model that was named, or all as --preload says, and returns the names of all.
func (l *library) preload(ctx context.Context, s *serve.Server) (names []string, err error) {
	all, err := l.list(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 && !l.o.Pull {
		cache, err := hub.DefaultCache()
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("found no models in %s, want some: hippo pull NAME fetches one, and hippo serve MODEL "+
			"takes a folder or a file", cache.Dir)
	}
	var need int64
	for _, info := range all {
		names = append(names, info.Name)
		need += info.Memory
	}
	now := names[:min(1, len(l.named))] // to be loaded
	if l.o.Preload {
		now = names
	}
	if l.o.Preload && l.Memory > 0 && need > l.Memory {
		return nil, fmt.Errorf("preload: the weights of %d models need about %s, and models have %s: want more "+
			"--max_memory, or fewer models", len(all), status.Bytes(need), status.Bytes(l.Memory))
	}
	for _, name := range now {
		if err := s.Preload(ctx, name); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// list describes all models.
func (l *library) list(context.Context) (all []host.ModelInfo, err error) {
	for _, n := range l.named {
		info, err := l.describeNamed(n)
		if err != nil { // its files have gone or are being written: what is loaded goes on
			l.mu.Lock()
			info = l.known[n.name]
			l.mu.Unlock()
		}
		all = append(all, info)
	}
	if !l.cached {
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
		if e.Problem == "" {
			all = append(all, l.cachedInfo(e))
		}
	}
	return all, nil
}

// cachedInfo describes a model of the cache.
func (l *library) cachedInfo(e hub.Entry) host.ModelInfo {
	info := host.ModelInfo{
		Name: e.Name, Path: e.Path, Bytes: e.Bytes, Modified: e.Pulled, Family: e.Family,
		Format: cmp.Or(formatOf(e.Path), "safetensors"), Parameters: e.Parameters, Precision: e.Precision,
		Digest: digest(fmt.Sprintln(e.Name, e.Commit, filepath.Base(e.Path), e.Bytes)),
	}
	info.Memory = l.weights(info)
	return info
}

// describe describes a model of the command line.
func (l *library) describe(name, path string) (host.ModelInfo, error) {
	info := host.ModelInfo{Name: name}
	dir, err := modelPath(path)
	if err != nil {
		return info, err
	}
	info.Path = dir
	var more []string // of an adapter alone
	if base, err := hippo.AdapterBase(dir, modelPath); err != nil {
		return info, err
	} else if base != dir {
		if more, err = adapterFiles(dir); err != nil {
			return info, err
		}
		dir = base
	}
	files := []string{dir}
	if !release.IsGGUF(dir) {
		if dir, err = model.Resolve(dir); err != nil {
			return info, err
		}
		if files, err = filesIn(dir); err != nil {
			return info, err
		}
	}
	var text strings.Builder
	var weights []string
	for _, file := range append(more, files...) {
		stat, err := os.Stat(file)
		if err != nil {
			return info, err
		}
		fmt.Fprintln(&text, file, stat.Size(), stat.ModTime().UnixNano())
		info.Bytes += stat.Size()
		if stat.ModTime().After(info.Modified) {
			info.Modified = stat.ModTime()
		}
		if ending := formatOf(file); (ending == "safetensors" || ending == "gguf") && !slices.Contains(more, file) {
			info.Format, weights = ending, append(weights, file)
		}
	}
	info.Digest = digest(text.String())
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.known[name]; known.Digest == info.Digest {
		return known, nil
	}
	said, err := hub.Summarize(dir, weights)
	if err != nil {
		return info, err
	}
	info.Family, info.Parameters, info.Precision = said.Family, said.Parameters, said.Precision
	info.Memory = l.weights(info)
	l.known[name] = info
	return info, nil
}

// modelEndings are those of the files that a model is read from.
var modelEndings = []string{"json", "safetensors", "jinja", "model", "txt"}

// filesIn are the files of a folder that a model is read from.
func filesIn(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && // also behind a link
			slices.Contains(modelEndings, formatOf(path)) {
			files = append(files, path)
		}
	}
	return files, err
}

// weights is about how much memory the weights of a model take.
func (l *library) weights(info host.ModelInfo) int64 {
	perParameter := 4.0
	switch l.o.Precision {
	case "bf16":
		perParameter = 2
	case "int8":
		perParameter = 1.1 // with the scales
	case "int4", "int4min":
		perParameter = 0.7
	case hippo.Stored:
		switch kind := checkpoint.DType(info.Precision); kind {
		case checkpoint.F32, checkpoint.F16, checkpoint.F64: // all of them become float32
		case checkpoint.BF16:
			perParameter = 2
		default: // integers stay as they are in the files
			return info.Bytes
		}
	}
	if info.Parameters == 0 { // only reading all would tell
		return info.Bytes
	}
	return int64(perParameter * float64(info.Parameters))
}

// show tells of a model what its files say without the weights.
func (l *library) show(_ context.Context, info host.ModelInfo) (card host.ModelCard, err error) {
	path, err := l.modelOf(info)
	if err != nil {
		return card, err
	}
	net, dir, err := release.Describe(path)
	if err != nil {
		return card, err
	}
	tok, err := release.LoadTokenizer(dir, &net.Config)
	if err != nil {
		return card, err
	}
	settings, err := chat.Load(dir, tok)
	if err != nil {
		return card, err
	}
	return host.NewModelCard(net, settings), nil
}

// remove deletes a model of the cache.
func (l *library) remove(_ context.Context, info host.ModelInfo) error {
	if slices.ContainsFunc(l.named, func(n namedModel) bool { return n.name == info.Name }) {
		return fmt.Errorf("%s was given to hippo serve by its name, want a model of the cache", info.Name)
	}
	name, cache, err := publishedName(info.Name)
	if err != nil {
		return err
	}
	plan, err := cache.PlanRemoval(name)
	if err != nil {
		return err
	}
	return plan.Remove()
}

// pullFor fetches a published model for a client.
func pullFor(ctx context.Context, text string, tell func(host.PullProgress)) error {
	name, err := hub.ParseName(text)
	if err != nil {
		return err
	}
	client, err := hub.FromEnvironment()
	if err != nil {
		return err
	}
	tell(host.PullProgress{Status: "pulling manifest"})
	plan, err := client.Plan(ctx, name)
	if err != nil {
		return err
	}
	client.Watch = hub.Watch{
		Bytes: func(done, total int64) {
			tell(host.PullProgress{
				Status: "pulling " + name.String(), Digest: "sha1:" + plan.Commit, Done: done, Total: total,
			})
		},
		Note: func(format string, args ...any) {
			tell(host.PullProgress{Status: brief.Line(fmt.Sprintf(format, args...))})
		},
	}
	_, err = client.Pull(ctx, plan, false)
	return err
}

// digest tells descriptions of files apart.
func digest(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// formatOf is the format of a file of weights: the ending of its name.
func formatOf(path string) string { return strings.TrimPrefix(filepath.Ext(path), ".") }
