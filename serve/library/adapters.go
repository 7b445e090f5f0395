package library

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/serve/host"
)

// addAdapters adds adapters as models and checks that each fits its base model.
func (l *Library) addAdapters(args []string) error {
	prints := map[string]string{} // fingerprints of weights, by path
	for _, arg := range args {
		n, err := l.adapterNamed(arg)
		if err != nil {
			return fmt.Errorf("adapter: %w", err)
		}
		path, err := l.Find(l.pathOf(n.base))
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
func (l *Library) adapterNamed(arg string) (n namedModel, err error) {
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

// adapterName returns the last part of a path, or the one before if that is best or last of a run.
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

// adapterFiles returns the files that an adapter is read from.
func adapterFiles(dir string) ([]string, error) {
	dir, err := release.ResolveAdapter(dir)
	if err != nil {
		return nil, err
	}
	if release.IsGGUF(dir) {
		return []string{dir}, nil
	}
	return []string{
		filepath.Join(dir, release.AdapterConfigFile), filepath.Join(dir, release.AdapterWeightsFile),
	}, nil
}

// modelOf returns the path of a model or, for an adapter, the path of its base model.
func (l *Library) modelOf(info host.ModelInfo) (string, error) {
	if info.Base == "" {
		return hippo.AdapterBase(info.Path, l.Find)
	}
	return l.Find(l.pathOf(info.Base))
}
