package convert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/tokenizer/gguf"
	"github.com/hippo-ssm/hippo/tokenizer/trie"
)

// Layouts lists the layouts of a folder that can be written.
var Layouts = []string{"hippo", "hf"}

// ToHF writes a model, a training run or an adapter in the layout of the transformers library: the configuration and
// tensor names of its family, the tokenizer, the chat template, and the tokens that end a reply.
func ToHF(ctx context.Context, path, dir string, o Options) (*Report, error) {
	if err := CheckOut(dir, o.Force); err != nil {
		return nil, err
	}
	if release.IsAdapter(path) {
		return toPEFT(path, dir)
	}
	var g release.GGUFOptions // also used for this layout
	net, err := modelForGGUF(path, o, &g)
	if err != nil {
		return nil, err
	}
	from := path
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if from, err = model.Resolve(path); err != nil {
			return nil, err
		}
	}
	texts, err := release.ChatTexts(from)
	if err != nil {
		return nil, err
	}
	published := texts[release.PublishedFile]
	delete(texts, release.PublishedFile)
	if o.Shape.Config != "" {
		if published, err = os.ReadFile(o.Shape.Config); err != nil {
			return nil, err
		}
	}
	if texts, err = hfTexts(texts, &g); err != nil {
		return nil, err
	}
	like, err := weightsOf(from)
	if err != nil {
		return nil, err
	}
	defer like.Close()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &Report{model: net, tok: g.Tokenizer, read: path}
	err = WriteFolder(dir, func(tmp string) error {
		return errors.Join(release.WriteHF(tmp, net, published, like), saveHFTokenizer(tmp, from, g.Tokenizer))
	}, nil, texts)
	if err != nil && o.Shape.Config != "" {
		err = fmt.Errorf("config %s: %w", o.Shape.Config, err)
	}
	for _, name := range modelFiles {
		r.written = append(r.written, filepath.Join(dir, name))
	}
	return r, err
}

// toPEFT writes an adapter in which the modules are named as in the files of its base.
func toPEFT(path, dir string) (*Report, error) {
	m, a, r, err := loadAdapter(path)
	if err != nil {
		return nil, err
	}
	r.written = []string{filepath.Join(dir, release.AdapterConfigFile),
		filepath.Join(dir, release.AdapterWeightsFile)}
	return r, WriteFolder(dir, func(tmp string) error { return release.WritePEFT(tmp, m.Net(), a, m.Dir()) }, nil, nil)
}

// loadAdapter loads an adapter with its base, and returns a new report about them.
func loadAdapter(path string) (*hippo.Model, *release.Adapter, *Report, error) {
	m, err := hippo.Load(path)
	if err != nil {
		return nil, nil, nil, err
	}
	a, err := release.ReadAdapter(path)
	if err != nil {
		return nil, nil, nil, err
	}
	return m, a, &Report{model: m.Net(), tok: m.Tokenizer(), read: path}, nil
}

// weightsOf opens the weights that a model was read from.
func weightsOf(path string) (*checkpoint.File, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return release.OpenWeights(path)
	}
	return checkpoint.Open(path)
}

// hfTexts returns the files of a chat format in the form that the transformers library needs: generation_config.json
// has the ids of all ends of a reply, and tokenizer_config.json has the class of the tokenizer.
func hfTexts(texts map[string][]byte, g *release.GGUFOptions) (map[string][]byte, error) {
	s, err := chat.Parse(nil, texts[chat.GenerationFile], g.Tokenizer, chat.GenerationFile)
	if err != nil {
		return nil, err
	}
	if len(s.EndIDs) < len(g.EndIDs) {
		err = setFields(texts, chat.GenerationFile, map[string]any{"eos_token_id": g.EndIDs}, true)
	}
	return texts, errors.Join(err, endsOfTexts(texts, len(s.Stop), g.Tokenizer),
		setFields(texts, template.ConfigFile, map[string]any{"tokenizer_class": tokenizerClass(g.Tokenizer)}, false))
}

// tokenizerClass returns the class of a tokenizer in the transformers library or, for RWKV's tokenizer, in the files of
// its releases.
func tokenizerClass(tok tokenizer.Tokenizer) string {
	if tok.Kind() == trie.Kind {
		return "RwkvTokenizer"
	}
	return "PreTrainedTokenizerFast"
}

// endsOfTexts adds the ends of a reply that are several tokens to generation_config.json as stop_strings. had is the
// number of those that the file already has. It removes an eos_token that is not a single token. The transformers
// library would make it a new token, for which the model has no row.
func endsOfTexts(texts map[string][]byte, had int, tok tokenizer.Tokenizer) error {
	s, err := chat.Parse(texts[template.ConfigFile], texts[chat.GenerationFile], tok, template.ConfigFile)
	if source, ok := texts[template.SourceFile]; ok && err == nil {
		err = s.SetTemplate(string(source), tok)
	}
	if err != nil || len(s.Stop) <= had {
		return err
	}
	if slices.Contains(s.Stop, s.EOS) {
		err = setFields(texts, template.ConfigFile, map[string]any{"eos_token": nil}, true)
	}
	return errors.Join(err, setFields(texts, chat.GenerationFile, map[string]any{"stop_strings": s.Stop}, true))
}

// setFields sets fields of a JSON file. If replace is false, it sets only missing fields.
func setFields(texts map[string][]byte, name string, fields map[string]any, replace bool) error {
	all := map[string]any{}
	if text := texts[name]; text != nil {
		if err := json.Unmarshal(text, &all); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	changed := false
	for key, value := range fields {
		if _, ok := all[key]; !ok || replace {
			all[key], changed = value, true
		}
	}
	if !changed {
		return nil
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(all)
	texts[name] = text.Bytes()
	return err
}

// saveHFTokenizer writes a tokenizer for the transformers library: the model's own file unchanged if possible, else
// byte-level BPE with the same tokens.
func saveHFTokenizer(dir, from string, tok tokenizer.Tokenizer) error {
	files := []string{tokenizer.FileName, "tokenizer.model"}
	if info, err := os.Stat(from); err == nil && !info.IsDir() {
		from = filepath.Dir(from)
	}
	if found, err := tokenizer.Load(from); err != nil || found.Fingerprint() != tok.Fingerprint() {
		files = nil // those of another model, or none
	}
	for _, name := range files {
		text, err := disk.ReadText(filepath.Join(from, name), 1<<30)
		var own struct {
			Hippo json.RawMessage `json:"hippo"` // a form that only hippo can read
		}
		if err == nil && (name != tokenizer.FileName || json.Unmarshal(text, &own) == nil && own.Hippo == nil) {
			return disk.WriteBytes(filepath.Join(dir, name), text)
		}
	}
	if tok.Kind() == "gpt2" {
		return tok.Save(dir)
	}
	if t, ok := tok.(*trie.Tokenizer); ok {
		return disk.WriteBytes(filepath.Join(dir, trie.FileName), t.Text())
	}
	v, err := gguf.VocabularyOf(tok)
	if err == nil && v.Model == "gpt2" {
		if tok, err = gguf.FromVocabulary(v); err == nil {
			return tok.Save(dir)
		}
	}
	return fmt.Errorf("tokenizer: found the %s tokenizer, want one that the transformers library has: byte-level BPE, "+
		"bytes, or the files that the model was published with (%v)", tok.Kind(), err)
}
