package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/inspect"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// gpt2Vocab is the size of GPT-2's vocabulary, which the released H3 models use.
const gpt2Vocab = 50257

// Options specifies how to convert a model.
type Options struct {
	Shape     release.ShapeOptions
	Tokenizer string // bytes, dna, gpt2 or a path; empty: the one next to or inside the file
	Type      string // type of the matrices of a GGUF file: one of Types
	Form      string // form of an ONNX file: one of ONNXForms
	End       string // an additional token that ends a reply
	Force     bool   // replace an existing output
}

// Report describes what was read and what was written.
type Report struct {
	model   *model.Model
	tok     tokenizer.Tokenizer
	read    string
	shape   string // where the shape was read; "" for the configuration of a model's folder
	written []string
	notes   []string
}

// FromCheckpoint converts a checkpoint file to a model's folder dir.
func FromCheckpoint(ctx context.Context, file, dir string, o Options) (*Report, error) {
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return nil, notAFile(file)
	}
	if err := CheckOut(dir, o.Force); err != nil {
		return nil, err
	}
	r, err := read(file, o)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	texts, err := release.FolderTexts(file)
	if err != nil {
		return nil, err
	}
	if o.End != "" && r.tok != nil {
		if texts, err = chat.WithEnd(texts, o.End, r.tok); err != nil {
			return nil, err
		}
	}
	for _, name := range modelFiles {
		r.written = append(r.written, filepath.Join(dir, name))
	}
	return r, WriteFolder(dir, r.model.Save, r.tok, texts)
}

// Print prints the report as a table.
func (r *Report) Print(out io.Writer) error {
	t := status.NewTable(out)
	t.Row("read", "%s", r.read)
	if r.shape != "" {
		t.Row("shape", "%s", r.shape)
	}
	inspect.PrintModel(t, r.model)
	inspect.PrintTokenizer(t, r.tok)
	for _, path := range r.written {
		if info, err := os.Stat(path); err == nil {
			t.Row("wrote", "%s, %s", path, status.Bytes(info.Size()))
		}
	}
	if r.tok == nil {
		t.Row("note", "generate and eval need the tokenizer: convert again with --tokenizer")
	}
	for _, note := range r.notes {
		t.Row("note", "%s", note)
	}
	return t.Flush()
}

// notAFile returns an error for a folder that was given instead of a file. It names the checkpoints in the folder.
func notAFile(dir string) error {
	var found []string
	for _, ending := range checkpoint.Endings {
		paths, err := filepath.Glob(filepath.Join(dir, "*."+ending))
		if err != nil { // the folder's name is no valid pattern
			break
		}
		found = append(found, paths...)
	}
	if len(found) == 0 {
		return fmt.Errorf("%s: found a folder, want the file of a checkpoint (.%s)", dir,
			strings.Join(checkpoint.Endings, ", ."))
	}
	return fmt.Errorf("%s: found a folder, want the file of a checkpoint, such as %s", dir, brief.List(found, ", "))
}

// read reads a checkpoint and, if there is one, its tokenizer.
func read(path string, o Options) (*Report, error) {
	f, err := checkpoint.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &Report{shape: "read off the tensors"}
	m, config, err := release.FromCheckpoint(f, o.Shape)
	if err != nil {
		return nil, err
	}
	format := f.Format()
	if f.Root() != "" {
		format += ", " + f.Root()
	}
	r.model, r.read = m, fmt.Sprintf("%s (%s): %d tensors", path, format, len(f.Names()))
	if config != "" {
		r.shape = "of " + config
	}
	r.tok, err = tokenizerOf(m, path, o.Tokenizer, config == "")
	return r, err
}

// tokenizerOf returns the tokenizer of a converted model, nil if there is none, and records it in the configuration.
// guessed reports that the size of the vocabulary is that of the padded embedding. The tokenizer's size replaces it if
// both are equal after padding.
func tokenizerOf(m *model.Model, file, spec string, guessed bool) (tokenizer.Tokenizer, error) {
	tok, err := findTokenizer(m, file, spec)
	if tok == nil || err != nil {
		return nil, err
	}
	cfg := &m.Config
	if got := tok.Fingerprint(); cfg.Tokenizer != "" && cfg.Tokenizer != got {
		return nil, fmt.Errorf("tokenizer: found the %s tokenizer %s of %d tokens, want %s, which the configuration "+
			"names", tok.Kind(), got, tok.VocabSize(), cfg.Tokenizer)
	}
	if tok.VocabSize() > cfg.PaddedVocab() {
		return nil, fmt.Errorf("tokenizer: found the %s tokenizer of %d tokens, want one for the model's %d",
			tok.Kind(), tok.VocabSize(), cfg.VocabSize)
	}
	exact := *cfg
	exact.VocabSize = tok.VocabSize()
	if guessed && exact.PaddedVocab() == cfg.PaddedVocab() {
		cfg.VocabSize = exact.VocabSize
	}
	cfg.Tokenizer = tok.Fingerprint()
	return tok, nil
}

func findTokenizer(m *model.Model, file, spec string) (tokenizer.Tokenizer, error) {
	if spec != "" {
		return release.FindTokenizer(spec)
	}
	if release.IsGGUF(file) {
		return release.Tokenizer(file)
	}
	tok, err := tokenizer.Load(filepath.Join(filepath.Dir(file), tokenizer.FileName))
	if !errors.Is(err, fs.ErrNotExist) {
		return tok, err
	}
	switch dna := tokenizer.DNA(); {
	case m.Config.VocabSize == gpt2Vocab:
		return tokenizer.GPT2(), nil
	case m.Blocks[0].Kind == "hyena" && m.Config.VocabSize == dna.VocabSize():
		return dna, nil
	}
	return nil, nil
}
