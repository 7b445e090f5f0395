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

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
)

// Types are the types of the matrices of a GGUF file.
var Types = []string{"f32", "f16", "q8_0"}

// ToGGUF writes the model of a folder, a training run or a checkpoint as a GGUF file.
func ToGGUF(ctx context.Context, path, out string, o Options) (*Report, error) {
	if err := notThere(out, o.Force); err != nil {
		return nil, err
	}
	gguf := release.GGUFOptions{Type: checkpoint.DType(strings.ToUpper(o.Type))}
	net, err := modelForGGUF(path, o, &gguf)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := disk.WriteFile(out, func(w io.Writer) error { return release.WriteGGUF(w, net, gguf) }); err != nil {
		return nil, fmt.Errorf("%s: %w", out, err)
	}
	return &Report{model: net, tok: gguf.Tokenizer, read: path, written: []string{out}}, nil
}

// notThere returns an error if there is a file that may not be replaced.
func notThere(out string, force bool) error {
	_, err := os.Lstat(out)
	if err == nil && !force {
		return fmt.Errorf("%s is there, want another name (--force replaces it)", out)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// modelForGGUF reads a model. It sets its name, tokenizer and chat template in gguf.
func modelForGGUF(path string, o Options, gguf *release.GGUFOptions) (*model.Model, error) {
	if abs, err := filepath.Abs(path); err == nil {
		gguf.Name = strings.ToValidUTF8(filepath.Base(abs), "?")
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() && !release.IsGGUF(path) {
		r, err := read(path, o)
		if err == nil && r.tok == nil {
			err = fmt.Errorf("%s: found no tokenizer, want --tokenizer: llama.cpp loads no model without one", path)
		}
		if err != nil {
			return nil, err
		}
		gguf.Tokenizer = r.tok
		return r.model, nil
	}
	if info.IsDir() {
		if _, _, err := release.DescribeFloat(path); err != nil {
			return nil, err
		}
	}
	var net *model.Model
	dir := path
	if o.Tokenizer != "" {
		if gguf.Tokenizer, err = release.FindTokenizer(o.Tokenizer); err == nil {
			net, dir, err = release.LoadDir(path)
		}
	} else if m, loading := hippo.Load(path); loading == nil {
		net, dir, gguf.Tokenizer = m.Net(), m.Dir(), m.Tokenizer()
	} else {
		err = loading
	}
	if err != nil {
		return nil, err
	}
	if release.IsGGUF(dir) {
		t, err := release.ReadGGUFTexts(dir)
		gguf.Template = t.Template
		return net, err
	}
	c, err := template.Load(dir)
	gguf.Template = c.Source(false)
	return net, err
}
