package library

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
)

// addAdapters adds adapters as models and checks that each fits its base model.
func (l *Library) addAdapters(args []string) error {
	prints := map[string]string{} // fingerprints of weights, by path
	for _, arg := range args {
		n, err := l.adapterNamed(arg)
		if err == nil {
			err = l.checkAdapter(n, prints)
		}
		if err != nil {
			return fmt.Errorf("adapter: %w", err)
		}
		l.named = append(l.named, n)
	}
	return nil
}

// checkAdapter returns an error unless an adapter fits its base model. prints are known fingerprints of weights.
func (l *Library) checkAdapter(n namedModel, prints map[string]string) error {
	path, err := l.Find(l.pathOf(n.base))
	if err != nil {
		return err
	}
	a, err := release.ReadAdapter(n.path)
	if err != nil {
		return err
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
	return a.Attach(net, dir, prints[dir])
}

// maxAdapters is the maximum number of models and adapters of a library to which adapters are added.
const maxAdapters = 1000

// addAdapter adds an adapter, or replaces one.
func (l *Library) addAdapter(ctx context.Context, a host.NewAdapter) error {
	n := namedModel{name: a.Name, base: a.Base}
	if at := strings.LastIndexByte(a.Name, ':'); n.base == "" && at >= 0 {
		n.base = a.Name[:at]
	}
	l.adding.Lock()
	defer l.adding.Unlock()
	var bases []string
	for _, m := range l.all() {
		if m.base == "" {
			bases = append(bases, m.name)
		}
	}
	if n.base == "" && len(bases) == 1 {
		n.base = bases[0]
	}
	all, err := l.list(ctx)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(info host.ModelInfo) bool { return info.Name == a.Name })
	var c request.Checks
	c.That(host.IsName(a.Name), "lora_name", "found %.100q, want a name of 1 to %d bytes without spaces", a.Name,
		host.MaxName)
	c.That(at < 0 && !l.isPredictor(a.Name) || at >= 0 && a.Replace && all[at].Base == n.base, "lora_name",
		"found %.100q, which is a model, want another, or load_inplace for an adapter of the same model", a.Name)
	c.That(slices.Contains(bases, n.base), "base_model_name", "found %.100q, want one of %.1000q", n.base, bases)
	c.That(len(all) < maxAdapters, "lora_name", "found %d models and adapters, want at most %d", len(all), maxAdapters)
	if c.Err != nil {
		return c.Err
	}
	if n.path, err = l.adapterIn(a.Path); err != nil {
		return err
	}
	if err = l.checkAdapter(n, map[string]string{}); err == nil {
		_, err = l.describeNamed(n)
	}
	if err != nil {
		return request.Invalid("lora_path", "%v", brief.Error(err))
	}
	l.setNamed(append(l.without(n.name), n))
	return nil
}

// removeAdapter removes an adapter.
func (l *Library) removeAdapter(_ context.Context, name string) error {
	l.adding.Lock()
	defer l.adding.Unlock()
	if !slices.ContainsFunc(l.all(), func(n namedModel) bool { return n.name == name && n.base != "" }) {
		e := request.Invalid("lora_name", "found %.100q, which is no adapter of this server", name)
		e.Status = http.StatusNotFound
		return e
	}
	l.setNamed(l.without(name))
	return nil
}

// adapterIn returns the path of a folder or a file in AdapterDir, with links resolved. Its error reveals nothing else
// about the disk.
func (l *Library) adapterIn(path string) (string, error) {
	root, err := filepath.Abs(l.AdapterDir)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return "", err
	}
	full := path
	if !filepath.IsAbs(full) {
		full = filepath.Join(root, full)
	}
	full, err = filepath.EvalSymlinks(full)
	if err == nil {
		var in string
		if in, err = filepath.Rel(root, full); err == nil && filepath.IsLocal(in) && in != "." {
			return full, nil
		}
	}
	return "", request.Invalid("lora_path", "found %.100q, want an adapter in the folder of --adapter_dir", path)
}

// all returns the named models.
func (l *Library) all() []namedModel {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.named
}

// without returns the named models but one.
func (l *Library) without(name string) []namedModel {
	return slices.DeleteFunc(slices.Clone(l.all()), func(n namedModel) bool { return n.name == name })
}

func (l *Library) setNamed(all []namedModel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.named = all
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
