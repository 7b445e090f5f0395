package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Types lists the types of a GGUF file.
var Types = []string{"f32", "f16", "bf16", "q8_0", "q6_k", "q4_k_m", "q4_0"}

// ToGGUF writes the model of a folder, a training run or a checkpoint as a GGUF file. It writes an adapter as a GGUF
// file of its own.
func ToGGUF(ctx context.Context, path, out string, o Options) (*Report, error) {
	if err := notThere(out, o.Force); err != nil {
		return nil, err
	}
	if release.IsAdapter(path) {
		return toGGUFAdapter(path, out, o)
	}
	gguf := release.GGUFOptions{Type: checkpoint.DType(strings.ToUpper(o.Type))}
	net, err := modelForGGUF(path, o, &gguf)
	if err != nil {
		return nil, err
	}
	var noMTP error
	gguf.MTP, noMTP = release.LoadMTP(path, net, (*model.MTP).Load)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := disk.WriteFile(out, func(w io.Writer) error { return release.WriteGGUF(w, net, gguf) }); err != nil {
		return nil, fmt.Errorf("%s: %w", out, err)
	}
	r := &Report{model: net, tok: gguf.Tokenizer, read: path, written: []string{out}}
	if noMTP != nil && !errors.Is(noMTP, release.ErrNoMTP) {
		r.notes = append(r.notes, fmt.Sprintf("the head for multi-token prediction is left out: %v", noMTP))
	}
	if s, err := chat.Load(out, gguf.Tokenizer); err == nil && len(s.Stop) > 0 {
		r.notes = append(r.notes, fmt.Sprintf("the end of a reply, %q, is several tokens, and a GGUF file names only "+
			"single ones: programs other than hippo need it as a stop text", s.Stop[0]))
	}
	return r, nil
}

// toGGUFAdapter writes an adapter as a GGUF file for use with the GGUF file of its base.
func toGGUFAdapter(path, out string, o Options) (*Report, error) {
	if o.Type != Types[0] {
		return nil, fmt.Errorf("type: found %s for an adapter, want %s", o.Type, Types[0])
	}
	m, a, r, err := loadAdapter(path)
	if err != nil {
		return nil, err
	}
	texts, err := release.ChatTexts(m.Dir())
	if err != nil {
		return nil, err
	}
	r.written = []string{out}
	err = disk.WriteFile(out, func(w io.Writer) error {
		return release.WriteGGUFAdapter(w, m.Net(), a, texts[release.PublishedFile])
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", out, err)
	}
	return r, nil
}

// notThere returns an error if a file exists that may not be replaced.
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
		return r.model, setChat(gguf, filepath.Dir(path), o.End)
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
	return net, setChat(gguf, dir, o.End)
}

// setChat sets the options of a GGUF file about chats, from the files in a folder or from another GGUF file. end is an
// additional token that ends a reply, "" for none.
func setChat(gguf *release.GGUFOptions, dir, end string) error {
	s, err := chat.Load(dir, gguf.Tokenizer)
	if err == nil && end != "" {
		err = addEnd(s, end, gguf.Tokenizer)
	}
	if err != nil {
		return err
	}
	texts, err := release.ChatTexts(dir)
	if err != nil {
		return err
	}
	gguf.Template, gguf.BOS, gguf.EOS, gguf.EndIDs = s.Source, s.BOS, s.EOS, s.EndIDs
	gguf.Sampling, gguf.Published = texts[chat.GenerationFile], texts[release.PublishedFile]
	_, ends := gguf.Tokenizer.EndOfText()
	if s.Template != nil && len(s.EndIDs) == 0 && len(s.Stop) == 0 && !ends {
		return fmt.Errorf("%s: found a chat template that writes no text that ends a reply, and no token named for "+
			"it: a chat would never end; want --end TOKEN", dir)
	}
	return nil
}

// addEnd adds a token that ends a reply.
func addEnd(s *chat.Settings, end string, tok tokenizer.Tokenizer) error {
	ids, err := tok.Encode(nil, []byte(end))
	if err == nil && len(ids) != 1 {
		err = fmt.Errorf("end: found %q, which is %d tokens, want one", end, len(ids))
	}
	if err == nil && !slices.Contains(s.EndIDs, ids[0]) {
		s.EndIDs = append(s.EndIDs, ids[0])
	}
	return err
}
