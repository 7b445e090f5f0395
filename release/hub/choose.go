package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// File is a file of a repository.
type File struct {
	Path   string `json:"path"` // with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256,omitempty"` // of a large file
	GitID  string `json:"git_id,omitempty"` // of a small file: the SHA-1 of "blob SIZE\0" and the content
	Cached bool   `json:"cached"`           // it was cached before the pull
}

// sum returns the name of the content in the folder of blobs.
func (f File) sum() string {
	if f.SHA256 != "" {
		return f.SHA256
	}
	return f.GitID
}

// small lists the files that accompany weights: the configuration, the tokenizer, the chat template.
var small = []string{
	"config.json", "generation_config.json", "params.json", "rwkv_vocab_v20230424.txt",
	"tokenizer.json", "tokenizer_config.json", "tokenizer.model", "tokenizer.model.v3", "special_tokens_map.json",
	"added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "chat_template.jinja", "chat_template.json",
}

const (
	safetensors = ".safetensors"
	gguf        = ".gguf"
	indexEnding = ".index.json"
)

// pickles lists the extensions of PyTorch's files.
var pickles = []string{".bin", ".pt", ".pth", ".ckpt"}

// notWeights lists files that trainers save next to weights.
var notWeights = []string{"training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.bin", "scheduler.pt"}

// isWeights reports, by its name, whether a file contains weights.
func isWeights(name string) bool {
	ending := path.Ext(name)
	return ending == safetensors || ending == gguf || slices.Contains(pickles, ending)
}

// choice lists the files of a repository that are needed.
type choice struct {
	weights []string // the first is the one to open
	others  []string
	whole   bool // load the folder rather than a single file
}

// all returns the paths, each once.
func (c choice) all() []string { return append(slices.Clone(c.weights), c.others...) }

// chooser chooses files. read returns the content of a small file.
type chooser struct {
	name  Name
	files map[string]File
	paths []string // in order
	read  func(File) ([]byte, error)
}

func newChooser(name Name, files []File, read func(File) ([]byte, error)) *chooser {
	c := &chooser{name: name, files: map[string]File{}, read: read}
	for _, f := range files {
		c.files[f.Path] = f
		c.paths = append(c.paths, f.Path)
	}
	slices.Sort(c.paths)
	return c
}

// choose returns the files for a name: the named files, the .gguf file of its quantisation, or else weights as
// safetensors, a single .gguf file, or PyTorch's files, in this order. It adds the small files, except for a .gguf
// file, which contains its configuration and tokenizer.
func (c *chooser) choose() (choice, error) {
	switch {
	case len(c.name.Files) > 0:
		return c.named()
	case c.name.Quant != "":
		return c.quantised()
	}
	var errs []error
	for _, find := range []func() (choice, error){c.safetensors, c.gguf, c.pickle} {
		found, err := find()
		if err == nil && len(found.weights) > 0 {
			return found, nil
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return choice{}, err
	}
	return choice{}, missingf("%s: found no weights among its %d files%s; want .safetensors, .gguf or one of %s",
		c.name.Repo, len(c.paths), c.some(func(string) bool { return true }), strings.Join(pickles, ", "))
}

// some lists the matching paths in parentheses.
func (c *chooser) some(match func(string) bool) string {
	var found []string
	for _, p := range c.paths {
		if match(p) {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return " (" + brief.Line(brief.List(found[:min(len(found), 12)], ", ")) + ")"
}

// smallFiles returns the small files that exist.
func (c *chooser) smallFiles() (found []string) {
	for _, name := range small {
		if _, ok := c.files[name]; ok {
			found = append(found, name)
		}
	}
	return found
}

func (c *chooser) named() (found choice, err error) {
	for _, name := range c.name.Files {
		if _, ok := c.files[name]; !ok {
			return choice{}, missingf("%s: found no file %s%s", c.name.Repo, brief.Line(name), c.some(isWeights))
		}
		if isWeights(name) {
			parts, err := c.parts(name)
			if err != nil {
				return choice{}, err
			}
			found.weights = append(found.weights, parts...)
		} else {
			found.others = append(found.others, name)
		}
	}
	needsConfig := func(name string) bool { return path.Ext(name) != gguf }
	if slices.ContainsFunc(found.weights, needsConfig) {
		for _, name := range c.smallFiles() {
			if !slices.Contains(found.others, name) {
				found.others = append(found.others, name)
			}
		}
	}
	return found, nil
}

// quantised finds the .gguf file whose name ends in the quantisation.
func (c *chooser) quantised() (choice, error) {
	ends := regexp.MustCompile(`(?i)(^|[-._/])` + regexp.QuoteMeta(c.name.Quant) + `$`)
	return c.one(gguf, func(p string) bool { return ends.MatchString(stem(p)) }, "--file NAME")
}

func (c *chooser) gguf() (choice, error) {
	return c.one(gguf, func(string) bool { return true }, c.name.Repo+":QUANTISATION")
}

// one finds the single matching file with the given extension, including all its parts. how is the advice in the error
// if there are several.
func (c *chooser) one(ending string, match func(string) bool, how string) (choice, error) {
	var found []string
	isModel := func(p string) bool {
		return path.Ext(p) == ending && !strings.HasPrefix(path.Base(p), "mmproj") && isFirstPart(p)
	}
	for _, p := range c.paths {
		if isModel(p) && match(p) {
			found = append(found, p)
		}
	}
	switch {
	case len(found) == 1:
		parts, err := c.parts(found[0])
		return choice{weights: parts}, err
	case len(found) > 1:
		return choice{}, fmt.Errorf("%s: found %d files of weights, want the name of one by %s: %s", c.name.Repo,
			len(found), how, brief.Line(brief.List(found, ", ")))
	case c.name.Quant != "":
		return choice{}, missingf("%s: found no .gguf file of %s%s", c.name.Repo, c.name.Quant, c.some(isModel))
	}
	return choice{}, nil
}

var partPattern = regexp.MustCompile(`-(\d{5})-of-(\d{5})$`)

// stem returns a path without its extension and without the number of its part.
func stem(p string) string {
	return partPattern.ReplaceAllString(strings.TrimSuffix(p, path.Ext(p)), "")
}

func isFirstPart(p string) bool {
	part := partPattern.FindStringSubmatch(strings.TrimSuffix(p, path.Ext(p)))
	return part == nil || part[1] == "00001"
}

// parts returns all numbered parts of a split file, its own path first.
func (c *chooser) parts(name string) ([]string, error) {
	found := []string{name}
	part := partPattern.FindStringSubmatch(strings.TrimSuffix(name, path.Ext(name)))
	if path.Ext(name) != gguf || part == nil {
		return found, nil
	}
	for _, p := range c.paths {
		if p != name && strings.HasSuffix(p, "-of-"+part[2]+gguf) && stem(p) == stem(name) {
			found = append(found, p)
		}
	}
	if want, err := strconv.Atoi(part[2]); err != nil || len(found) != want {
		return nil, missingf("%s: found %d parts of %s, want %s", c.name.Repo, len(found), name, part[2])
	}
	return found, nil
}

// safetensors finds the files of an index, or model.safetensors, or all such files at the top level.
func (c *chooser) safetensors() (choice, error) {
	return c.folder("model", safetensors, func(p string) bool { return true })
}

// pickle finds the files of an index, or pytorch_model.bin, or the only such file at the top level.
func (c *chooser) pickle() (choice, error) {
	found, err := c.folder("pytorch_model", ".bin", func(string) bool { return false })
	if len(found.weights) > 0 || err != nil {
		return found, err
	}
	var at []string
	for _, p := range c.paths {
		if slices.Contains(pickles, path.Ext(p)) && !strings.Contains(p, "/") && !slices.Contains(notWeights, p) &&
			!strings.HasPrefix(p, "rng_state") {
			at = append(at, p)
		}
	}
	if len(at) > 1 {
		return choice{}, fmt.Errorf("%s: found %d files of weights, want the name of one by --file: %s", c.name.Repo,
			len(at), brief.List(at, ", "))
	}
	return choice{at, c.smallFiles(), true}, nil
}

// folder finds the weights of a folder: base + ending + .index.json and the files that it names, or base + ending, or
// all matching files at the top level.
func (c *chooser) folder(base, ending string, match func(string) bool) (choice, error) {
	if f, ok := c.files[base+ending+indexEnding]; ok {
		shards, err := c.index(f)
		return choice{shards, append([]string{f.Path}, c.smallFiles()...), true}, err
	}
	if _, ok := c.files[base+ending]; ok {
		return choice{[]string{base + ending}, c.smallFiles(), true}, nil
	}
	var at []string
	for _, p := range c.paths {
		if path.Ext(p) == ending && !strings.Contains(p, "/") && match(p) {
			at = append(at, p)
		}
	}
	return choice{at, c.smallFiles(), true}, nil
}

// index returns the names of the files in an index. All of them must be in the repository.
func (c *chooser) index(f File) ([]string, error) {
	where := c.name.Repo + ": " + f.Path
	if f.Size > disk.MaxText {
		return nil, fmt.Errorf("%s: found %d bytes, want at most %d", where, f.Size, int64(disk.MaxText))
	}
	text, err := c.read(f)
	if err != nil {
		return nil, err
	}
	var said struct {
		Map map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return nil, brief.Error(fmt.Errorf("%s: %w", where, err))
	}
	names := map[string]bool{}
	for _, name := range said.Map {
		names[name] = true
	}
	shards := slices.Sorted(maps.Keys(names))
	var absent []string
	for _, name := range shards {
		if _, ok := c.files[name]; !ok || !isWeights(name) {
			absent = append(absent, name)
		}
	}
	switch {
	case len(shards) == 0:
		return nil, fmt.Errorf("%s: found no weight_map with names of files", where)
	case len(absent) > 0:
		return nil, missingf("%s names missing files: %s", where, brief.Line(brief.List(absent, ", ")))
	}
	return shards, nil
}

// missing reports that a repository lacks the named files.
type missing string

func (m missing) Error() string { return string(m) }

func missingf(format string, args ...any) error { return missing(fmt.Sprintf(format, args...)) }
