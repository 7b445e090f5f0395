package library

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/release/hub"
	"github.com/hippo-ssm/hippo/serve/host"
)

// describe describes a named model that is no adapter of another.
func (l *Library) describe(name, path string) (host.ModelInfo, error) {
	info := host.ModelInfo{Name: name}
	dir, err := l.Find(path)
	if err != nil {
		return info, err
	}
	info.Path = dir
	var adapter []string // the files of an adapter alone
	if base, err := hippo.AdapterBase(dir, l.Find); err != nil {
		return info, err
	} else if base != dir {
		if adapter, err = adapterFiles(dir); err != nil {
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
	text, err := addFiles(&info, append(adapter, files...))
	if err != nil {
		return info, err
	}
	var weights []string
	for _, file := range files {
		if e := ending(file); e == "safetensors" || e == "gguf" {
			info.Format, weights = e, append(weights, file)
		}
	}
	info.Digest = digest(text)
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.known[name]; known.Digest == info.Digest {
		return known, nil
	}
	summary, err := hub.Summarize(dir, weights)
	if err != nil {
		return info, err
	}
	info.Family, info.Parameters, info.Precision = summary.Family, summary.Parameters, summary.Precision
	info.Memory = l.weights(info)
	l.known[name] = info
	return info, nil
}

// describeNamed describes a named model, or an adapter with the model that it is for.
func (l *Library) describeNamed(n namedModel) (host.ModelInfo, error) {
	if n.base == "" {
		return l.describe(n.name, n.path)
	}
	info, err := l.describe(n.base, l.pathOf(n.base))
	if err != nil {
		return info, err
	}
	info.Base, info.Name, info.Path, info.Bytes, info.Format = n.base, n.name, n.path, 0, "safetensors"
	files, err := adapterFiles(n.path)
	if err != nil {
		return info, err
	}
	text, err := addFiles(&info, files)
	if err != nil {
		return info, err
	}
	info.Memory, info.Digest = info.Bytes, digest(info.Digest+text)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[n.name] = info
	return info, nil
}

// addFiles adds the sizes and times of files to info. The text differs if a file does.
func addFiles(info *host.ModelInfo, files []string) (string, error) {
	var text strings.Builder
	for _, file := range files {
		stat, err := os.Stat(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&text, file, stat.Size(), stat.ModTime().UnixNano())
		info.Bytes += stat.Size()
		if stat.ModTime().After(info.Modified) {
			info.Modified = stat.ModTime()
		}
	}
	return text.String(), nil
}

// modelEndings are the endings of the files that a model is read from.
var modelEndings = []string{"json", "safetensors", "jinja", "model", "txt"}

// filesIn returns the files of a folder that a model is read from.
func filesIn(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && // also behind a link
			slices.Contains(modelEndings, ending(path)) {
			files = append(files, path)
		}
	}
	return files, err
}

// weights estimates the memory of a model's weights.
func (l *Library) weights(info host.ModelInfo) int64 {
	perParameter := 4.0
	switch l.Precision {
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
	if info.Parameters == 0 { // counting them would need the weights
		return info.Bytes
	}
	return int64(perParameter * float64(info.Parameters))
}

// show reads the card of a model from its files, without the weights.
func (l *Library) show(_ context.Context, info host.ModelInfo) (card host.ModelCard, err error) {
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

// digest returns the hexadecimal SHA-256 of a text.
func digest(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// ending returns the ending of a file's name, without its dot.
func ending(path string) string { return strings.TrimPrefix(filepath.Ext(path), ".") }
