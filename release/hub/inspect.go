package hub

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// Entry is a model in the cache, or a part of one.
type Entry struct {
	Name       string    `json:"name"` // as commands accept it
	Revision   string    `json:"revision,omitempty"`
	Commit     string    `json:"commit,omitempty"`
	Path       string    `json:"path"` // for a loader
	Family     string    `json:"family,omitempty"`
	Parameters int64     `json:"parameters,omitempty"` // 0: unknown without reading the weights
	Precision  string    `json:"precision,omitempty"`  // type of most numbers
	Bytes      int64     `json:"bytes"`
	Pulled     time.Time `json:"pulled"`
	Problem    string    `json:"problem,omitempty"` // why it cannot be used
}

// List returns the models of a cache, the most recently pulled first. A snapshot with several .gguf files counts as
// several models.
func (c Cache) List() ([]Entry, error) {
	repos, err := c.repos()
	if err != nil {
		return nil, err
	}
	var all []Entry
	for _, r := range repos {
		found, err := r.entries()
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b Entry) int {
		return cmp.Or(b.Pulled.Compare(a.Pulled), strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

// entries returns the models of all revisions of a repository.
func (r repo) entries() ([]Entry, error) {
	refs, err := r.refs()
	if err != nil {
		return nil, err
	}
	commits, err := r.commits()
	if err != nil {
		return nil, err
	}
	var all []Entry
	for _, commit := range commits {
		found, err := r.models(revisionOf(refs, commit), commit)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		size, when, err := r.pieces()
		if err != nil || size == 0 {
			return nil, err
		}
		all = append(all, Entry{Name: r.name, Path: r.dir(), Bytes: size, Pulled: when,
			Problem: "incomplete: hippo pull " + r.name + " resumes it"})
	}
	return all, nil
}

// revisionOf returns a name for a commit: main, another branch or tag, or the commit itself.
func revisionOf(refs map[string]string, commit string) string {
	if refs[MainRevision] == commit {
		return MainRevision
	}
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		if refs[name] == commit {
			return name
		}
	}
	return commit
}

// commits returns the commits with a snapshot.
func (r repo) commits() (found []string, err error) {
	entries, err := os.ReadDir(filepath.Join(r.dir(), "snapshots"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() && commitPattern.MatchString(e.Name()) {
			found = append(found, e.Name())
		}
	}
	return found, nil
}

// models returns the models of a snapshot: the one that its revision selects, and each other .gguf file.
func (r repo) models(revision, commit string) ([]Entry, error) {
	files, err := r.files(commit)
	if err != nil {
		return nil, err
	}
	name := Name{Repo: r.name, Revision: revision}
	var all []Entry
	found, problem := r.find(name, commit)
	if problem == nil {
		e, _ := describe(name, found)
		all = append(all, e)
	}
	for _, f := range files {
		if filepath.Ext(f.Path) != gguf || !isFirstPart(f.Path) {
			continue
		}
		n := Name{Repo: r.name, Revision: revision, Files: []string{f.Path}}
		if one, err := r.find(n, commit); err == nil && (problem != nil || one.Path() != found.Path()) {
			e, _ := describe(n, one)
			all = append(all, e)
		}
	}
	if len(all) == 0 && len(files) > 0 {
		e := Entry{Name: name.String(), Revision: revision, Commit: commit, Path: r.snapshot(commit),
			Problem: brief.Line(problem.Error())}
		for _, f := range files {
			e.Bytes += f.Size
			e.Pulled = later(e.Pulled, r.pointer(commit, f.Path))
		}
		all = append(all, e)
	}
	return all, nil
}

// later returns the time at which a file or a link was created, or t if t is later.
func later(t time.Time, path string) time.Time {
	if info, err := os.Lstat(path); err == nil && info.ModTime().After(t) {
		return info.ModTime()
	}
	return t
}

// pieces returns the total size of the contents that no snapshot uses, left by an interrupted pull.
func (r repo) pieces() (size int64, when time.Time, err error) {
	entries, err := os.ReadDir(r.blobs())
	if errors.Is(err, os.ErrNotExist) {
		return 0, when, nil
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
			when = later(when, filepath.Join(r.blobs(), e.Name()))
		}
	}
	return size, when, err
}

// describe returns a description from the files of a model without reading its weights.
func describe(n Name, f Found) (Entry, Summary) {
	e := Entry{Name: n.String(), Revision: n.Revision, Commit: f.Commit, Path: f.Path()}
	for _, path := range f.Files {
		if info, err := os.Stat(path); err == nil {
			e.Bytes += info.Size()
			e.Pulled = later(e.Pulled, path)
		}
	}
	s, err := Summarize(f.Dir, f.Weights)
	e.Family, e.Parameters, e.Precision = s.Family, s.Parameters, s.Precision
	if err != nil {
		e.Problem = brief.Line(err.Error())
	}
	return e, s
}

// Summary holds what the files of a model say about it.
type Summary struct {
	Family     string
	Parameters int64  // 0 if unknown without reading the weights
	Precision  string // type of most numbers
	Said       map[string]any
}

// configFile is the name of the configuration in a model's folder.
const configFile = "config.json"

// Summarize reads the configuration in a folder and the headers of weights. It skips PyTorch files, whose headers
// contain no such information.
func Summarize(dir string, weights []string) (Summary, error) {
	var s Summary
	var errs []error
	var text []byte
	path := filepath.Join(dir, configFile)
	isGGUF := len(weights) > 0 && filepath.Ext(weights[0]) == gguf
	if isGGUF {
		weights = weights[:1] // the other parts are found from it
	} else {
		var err error
		if text, err = disk.ReadText(path, disk.MaxText); err == nil {
			if err = json.Unmarshal(text, &s.Said); err != nil {
				err = fmt.Errorf("%s: %w", path, err)
			}
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
		s.Family = familyOf(s.Said)
	}
	numbers := map[checkpoint.DType]int64{}
	for _, path := range weights {
		if ending := filepath.Ext(path); ending != safetensors && ending != gguf {
			continue
		}
		if err := count(path, isGGUF, numbers, &s); err != nil {
			errs = append(errs, err)
		}
	}
	for kind, n := range numbers {
		s.Parameters += n
		if best := checkpoint.DType(s.Precision); n > numbers[best] || n == numbers[best] && kind < best {
			s.Precision = string(kind)
		}
	}
	return s, brief.Error(errors.Join(errs...))
}

// familyOf returns the family that a configuration names.
func familyOf(said map[string]any) string {
	if family, ok := said["model_type"].(string); ok && family != "" {
		return brief.Line(family)
	}
	if names, ok := said["architectures"].([]any); ok && len(names) > 0 {
		if name, ok := names[0].(string); ok {
			return brief.Line(name)
		}
	}
	return ""
}

// count adds up the numbers in a file of weights by type, and reads the values of a .gguf file.
func count(path string, isGGUF bool, numbers map[checkpoint.DType]int64, s *Summary) (err error) {
	open := checkpoint.OpenSafetensors
	if isGGUF {
		open = checkpoint.OpenGGUF
	}
	f, err := open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		numbers[x.DType] += int64(x.Elements())
	}
	if s.Family == "" && isGGUF {
		s.Said = f.Values()
		family, _ := s.Said["general.architecture"].(string)
		s.Family = brief.Line(family)
	}
	return nil
}

// Shown describes a cached model as far as possible without reading its weights.
type Shown struct {
	Entry
	Said  map[string]any `json:"said,omitempty"` // contents of its configuration or .gguf file
	Files []File         `json:"files"`
}

// Show describes a model in the cache.
func (c Cache) Show(n Name) (Shown, error) {
	found, err := c.Find(n)
	if err != nil {
		return Shown{}, err
	}
	entry, summary := describe(n, found)
	s := Shown{Entry: entry, Said: map[string]any{}}
	for key, value := range summary.Said {
		if isShort(value) {
			s.Said[key] = value
		}
	}
	for _, path := range found.Files {
		rel, err := filepath.Rel(found.Dir, path)
		if err != nil {
			return Shown{}, err
		}
		if info, err := os.Stat(path); err == nil {
			s.Files = append(s.Files, File{Path: filepath.ToSlash(rel), Size: info.Size(), Cached: true})
		}
	}
	return s, nil
}

// isShort reports whether a value fits on a line. The vocabulary of a .gguf file does not, nor does its chat template.
func isShort(value any) bool {
	const longest = 200
	switch v := value.(type) {
	case string:
		return len(v) <= longest
	case float64:
		return !math.IsNaN(v) && !math.IsInf(v, 0)
	case bool, int64, uint64, nil:
		return true
	case []any:
		return len(v) <= 16 && !slices.ContainsFunc(v, func(x any) bool { return !isShort(x) })
	}
	return false
}
