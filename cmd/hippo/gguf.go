package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/inspect"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
)

// ggufEnding is how the name of a GGUF file ends.
const ggufEnding = ".gguf"

// ggufTypes are the values of --type.
var ggufTypes = []string{"f32", "f16", "q8_0"}

// convertToGGUF writes the model at a path as a GGUF file.
func convertToGGUF(cmd *cobra.Command, path, out, kind, spec string, shape release.ShapeOptions, force bool) error {
	if _, err := os.Lstat(out); err == nil && !force {
		return fmt.Errorf("%s is there, want another name (--force replaces it)", out)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	o := release.GGUFOptions{Type: checkpoint.DType(strings.ToUpper(kind))}
	net, err := modelForGGUF(path, spec, shape, &o)
	if err != nil {
		return err
	}
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	if err := disk.WriteFile(out, func(w io.Writer) error { return release.WriteGGUF(w, net, o) }); err != nil {
		return fmt.Errorf("%s: %w", out, err)
	}
	t := status.NewTable(cmd.OutOrStdout())
	t.Row("read", "%s", path)
	inspect.PrintModel(t, net)
	inspect.PrintTokenizer(t, o.Tokenizer)
	if info, err := os.Stat(out); err == nil {
		t.Row("wrote", "%s, %s", out, status.Bytes(uint64(info.Size())))
	}
	return t.Flush()
}

// modelForGGUF reads a model with its tokenizer and chat template, which it sets in o.
func modelForGGUF(path, spec string, shape release.ShapeOptions, o *release.GGUFOptions) (*model.Model, error) {
	if abs, err := filepath.Abs(path); err == nil {
		o.Name = strings.ToValidUTF8(filepath.Base(abs), "?")
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() && !release.IsGGUF(path) {
		net, origin, err := readCheckpoint(path, shape)
		if err != nil {
			return nil, err
		}
		o.Tokenizer, err = tokenizerOf(net, path, spec, origin.config == "")
		if err == nil && o.Tokenizer == nil {
			err = fmt.Errorf("%s: found no tokenizer, want --tokenizer: llama.cpp loads no model without one", path)
		}
		return net, err
	}
	if info.IsDir() {
		if _, _, err := release.DescribeFloat(path); err != nil {
			return nil, err
		}
	}
	var net *model.Model
	dir := path
	if spec != "" {
		if o.Tokenizer, err = release.FindTokenizer(spec); err == nil {
			net, dir, err = release.LoadDir(path)
		}
	} else if m, loading := hippo.Load(path); loading == nil {
		net, dir, o.Tokenizer = m.Net(), m.Dir(), m.Tokenizer()
	} else {
		err = loading
	}
	if err != nil {
		return nil, err
	}
	if release.IsGGUF(dir) {
		t, err := release.ReadGGUFTexts(dir)
		o.Template = t.Template
		return net, err
	}
	c, err := template.Load(dir)
	o.Template = c.Source(false)
	return net, err
}
