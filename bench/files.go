package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
)

// fileKinds maps the suffix of a file's name, as in NAME-q8_0.gguf, to a precision.
var fileKinds = map[string]engine.Precision{"f32": engine.Float32, "f16": engine.BF16, "bf16": engine.BF16,
	"q8_0": engine.Int8, "q4_0": engine.Int4}

// fileMix is the suffix of a file of several types. Its weights stay as stored, and its rows have the suffix as
// precision.
const fileMix = "q4_k_m"

// fileModels maps architectures to the names of models, as in other benchmarks.
var fileModels = map[string]string{"mamba": "Mamba-130M", "mamba2": "Mamba2-130M", "gpt2": "GPT"}

// fileLong holds the architectures that are also measured with a prompt of 8,192.
var fileLong = map[string]bool{"qwen35": true}

// filesCases measure models in files or folders: one more token for one sequence and for 32 at once, and reading a
// prompt of 512. Weights are in the precision that the file's name states, or stay as stored. rss_mb is the memory of
// the process afterwards, and used_mb the part that the model added. In place of GPT-2, which is not supported, a GPT
// of its size is measured.
func filesCases(args []string, shrink int) (cases []Case, err error) {
	files, err := modelFiles(args, shrink)
	for _, f := range files {
		for _, c := range []struct {
			batch, context int
			long           bool
		}{{1, 1024, false}, {32, 64, false}, {1, 8192, true}} {
			if c.long && f.arch != gpt2Arch { // others take about as long at any context
				continue
			}
			context := c.context / shrink
			cases = append(cases, f.measured(f.id("decode", Row{{"batch", float64(c.batch)},
				{"context", float64(context)}}), c.batch, context, 1, c.batch))
		}
		prompts := []int{512}
		if fileLong[f.arch] {
			prompts = append(prompts, 8192)
		}
		for _, prompt := range prompts {
			prompt /= shrink
			cases = append(cases, f.measured(f.id("prefill", Row{{"batch", 1.0}, {"l", float64(prompt)}}), 1, 0, prompt,
				prompt))
		}
	}
	return cases, err
}

// modelFiles returns the models of the given paths. None is loaded yet.
func modelFiles(paths []string, shrink int) (files []*modelFile, err error) {
	if len(paths) == 0 {
		return nil, errors.New("found no model, want files or folders")
	}
	for _, path := range paths {
		f := &modelFile{path: path, precision: "stored", shrink: shrink}
		base := strings.TrimSuffix(filepath.Base(path), ".gguf")
		kind := strings.ToLower(base[strings.LastIndex(base, "-")+1:])
		if p, ok := fileKinds[kind]; ok {
			f.packing, f.precision = &p, p.String()
		} else if kind == fileMix {
			f.precision = kind
		}
		if f.name, f.arch, err = modelNameOf(path); err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// gpt2Arch is the architecture of GPT-2.
const gpt2Arch = "gpt2"

// modelNameOf returns the name of a model in rows, and the architecture of a GGUF file or "".
func modelNameOf(path string) (name, arch string, err error) {
	name = filepath.Base(path)
	if !release.IsGGUF(path) {
		return name, "", nil
	}
	f, err := checkpoint.OpenGGUF(path)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	if arch, _ = f.Values()["general.architecture"].(string); arch != "" {
		name = cmp.Or(fileModels[arch], arch)
	}
	return name, arch, nil
}

// modelFile is a model that is loaded when its first case is measured.
type modelFile struct {
	path, name, precision string
	packing               *engine.Precision // nil for the precision of the file
	arch                  string            // architecture of a GGUF file
	shrink                int
	net                   *model.Model
	base                  uint64 // memory of the process before loading
}

// id returns the identifying fields of a case of a benchmark, including the given further ones.
func (f *modelFile) id(bench string, more Row) Row {
	return append(Row{{"bench", bench}, {"model", f.name}, {"precision", f.precision}}, more...)
}

func (f *modelFile) load() error {
	if f.net != nil {
		return nil
	}
	f.base = status.RSS()
	var err error
	switch {
	case f.arch == gpt2Arch:
		s := shape{d: 768, layers: max(1, 12/f.shrink), vocab: 50264 / f.shrink, heads: 12}
		s.attention = s.all()
		if f.net, err = s.build(); err == nil && f.packing != nil {
			err = f.net.Pack(*f.packing)
		}
	case f.packing != nil:
		f.net, _, err = release.LoadDirPacked(f.path, *f.packing)
	default:
		f.net, _, err = release.LoadDirStored(f.path)
	}
	return err
}

// measured returns a case of batch sequences. Each has read past tokens and reads length more. tokens is the number of
// tokens that the case counts, of all sequences together.
func (f *modelFile) measured(id Row, batch, past, length, tokens int) Case {
	return Case{ID: id, prepare: func(ctx context.Context) (trial, error) {
		if err := f.load(); err != nil {
			return trial{}, fmt.Errorf("%s: %w", f.path, err)
		}
		// The memory of the previous case does not count. The second collection empties pools.
		runtime.GC()
		debug.FreeOSMemory()
		random := rand.New(rand.NewPCG(1, 11))
		s := generate.NewBatch(f.net, batch)
		if past > 0 {
			if err := s.Feed(ctx, randomIDs(random, batch*past, f.net.Config.VocabSize)); err != nil {
				return trial{}, err
			}
		}
		ids := randomIDs(random, batch*length, f.net.Config.VocabSize)
		run := func() error {
			if past == 0 { // a prompt, each time from the start
				s = generate.NewBatch(f.net, batch)
			}
			return s.Feed(ctx, ids)
		}
		return trial{runs: []func() error{run}, fields: func(t []Timing) Row {
			now := status.RSS()
			return Row{{"tokens_per_s", rounded(float64(tokens) / t[0].CPU)},
				{"tokens_per_s_wall", rounded(float64(tokens) / t[0].Wall)},
				{"weights_mb", mebibytes(f.net.Bytes())}, {"used_mb", mebibytes(now - min(now, f.base))},
				{"rss_mb", mebibytes(now)}, {"rss_start_mb", mebibytes(f.base)}}
		}}, nil
	}}
}
