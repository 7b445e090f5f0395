package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/serve/host"
)

// addAdapters adds the models that --adapter names, and checks that each fits the model that it is for.
func (l *library) addAdapters(args []string) error {
	prints := map[string]string{} // fingerprints of weights, by path
	for _, arg := range args {
		n, err := l.adapterNamed(arg)
		if err != nil {
			return fmt.Errorf("adapter: %w", err)
		}
		i := slices.IndexFunc(l.named, func(other namedModel) bool { return other.name == n.base })
		path, err := modelPath(l.named[i].path)
		if err != nil {
			return err
		}
		a, err := release.ReadAdapter(n.path)
		if err != nil {
			return fmt.Errorf("adapter: %w", err)
		}
		net, dir, err := release.Describe(path)
		if err != nil {
			return err
		}
		if a.Weights != "" && prints[dir] == "" {
			if prints[dir], err = release.FileFingerprint(dir); err != nil {
				return err
			}
		}
		if err := a.Attach(net, dir, prints[dir]); err != nil {
			return fmt.Errorf("adapter: %w", err)
		}
		l.named = append(l.named, n)
	}
	return nil
}

// adapterNamed reads [[MODEL:]NAME=]DIR.
func (l *library) adapterNamed(arg string) (n namedModel, err error) {
	if arg == "" {
		return n, fmt.Errorf("found nothing, want the folder of an adapter")
	}
	name, dir, ok := strings.Cut(arg, "=")
	if !ok {
		dir = arg
		if name, err = adapterName(dir); err != nil {
			return n, err
		}
	}
	var models []string
	for _, m := range l.named {
		if m.base == "" {
			models = append(models, m.name)
		}
	}
	n = namedModel{path: dir}
	if at := strings.LastIndexByte(name, ':'); ok && at >= 0 {
		n.base, name = name[:at], name[at+1:]
	} else if len(models) == 1 {
		n.base = models[0]
	}
	n.name = n.base + ":" + name
	taken := func(other namedModel) bool { return other.name == n.name }
	switch {
	case name == "" || strings.ContainsAny(name, ":/"):
		return n, fmt.Errorf("found the name %q for %s, want some without : and /", name, dir)
	case !slices.Contains(models, n.base) && n.base == "":
		return n, fmt.Errorf("found %s for one of %d models, want MODEL:NAME=DIR with one of those that are named: %s",
			dir, len(models), strings.Join(models, ", "))
	case !slices.Contains(models, n.base):
		return n, fmt.Errorf("found the model %q for %s, want one of those that are named: %s", n.base, dir,
			strings.Join(models, ", "))
	case slices.ContainsFunc(l.named, taken):
		return n, fmt.Errorf("found two adapters with the name %q, want NAME=DIR with another", n.name)
	}
	return n, nil
}

// adapterName is the last part of a path, but for the folders of a run.
func adapterName(dir string) (string, error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if base := filepath.Base(full); base == model.BestDir || base == model.LastDir {
		full = filepath.Dir(full)
	}
	return filepath.Base(full), nil
}

// adapterFiles are the files that an adapter is read from.
func adapterFiles(dir string) ([]string, error) {
	dir, err := release.ResolveAdapter(dir)
	if err != nil {
		return nil, err
	}
	return []string{
		filepath.Join(dir, release.AdapterConfigFile), filepath.Join(dir, release.AdapterWeightsFile),
	}, nil
}

// describeNamed describes a model of the command line.
func (l *library) describeNamed(n namedModel) (host.ModelInfo, error) {
	if n.base == "" {
		return l.describe(n.name, n.path)
	}
	i := slices.IndexFunc(l.named, func(other namedModel) bool { return other.name == n.base })
	info, err := l.describe(n.base, l.named[i].path)
	if err != nil {
		return info, err
	}
	info.Base, info.Name, info.Path, info.Bytes, info.Memory = n.base, n.name, n.path, 0, 0
	info.Format = "safetensors"
	files, err := adapterFiles(n.path)
	if err != nil {
		return info, err
	}
	text := info.Digest
	for _, file := range files {
		stat, err := os.Stat(file)
		if err != nil {
			return info, err
		}
		text += fmt.Sprintln(file, stat.Size(), stat.ModTime().UnixNano())
		info.Bytes += stat.Size()
		if stat.ModTime().After(info.Modified) {
			info.Modified = stat.ModTime()
		}
	}
	info.Memory, info.Digest = info.Bytes, digest(text)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[n.name] = info
	return info, nil
}

// modelOf is where the files of a model are or, of an adapter, those of the model that it is for.
func (l *library) modelOf(info host.ModelInfo) (string, error) {
	if info.Base == "" {
		return hippo.AdapterBase(info.Path, modelPath)
	}
	i := slices.IndexFunc(l.named, func(n namedModel) bool { return n.name == info.Base })
	return modelPath(l.named[i].path)
}

// load loads a model. An adapter shares the weights of the model that it is for, which is loaded.
func (l *library) load(ctx context.Context, info host.ModelInfo, log *slog.Logger) (*host.Model, error) {
	m, err := l.read(info)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.loaded[info.Name] = m
	l.mu.Unlock()
	closed := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.loaded, info.Name)
	}
	served, err := l.o.model(ctx, info.Name, m, log, closed)
	if err != nil {
		closed()
	}
	return served, err
}

func (l *library) read(info host.ModelInfo) (*hippo.Model, error) {
	if info.Base == "" {
		return loadModel(info.Path, "", hippo.Precision(l.o.Precision))
	}
	l.mu.Lock()
	base := l.loaded[info.Base]
	l.mu.Unlock()
	if base == nil {
		return nil, fmt.Errorf("found no model %s that is loaded, want it for its adapter", info.Base)
	}
	return base.WithAdapter(info.Path)
}
