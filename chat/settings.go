// Package chat provides conversations with a model: messages and replies, rendered by the model's chat template, or
// plain text for a model without one. Nothing is read twice: a conversation stores the states after its last messages,
// and continues from the latest one that is still part of its text.
package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// GenerationFile is the name of the file in a model's folder that holds the defaults of sampling.
const GenerationFile = template.GenerationFile

// Settings holds the settings for chats in the files beside a model's weights.
type Settings struct {
	Template *template.Template // nil if the model has none
	Source   string             // source of Template
	BOS, EOS string             // the texts of the tokens that start and end a text, for the template
	EndIDs   []int32            // the tokens that end a reply, in addition to the tokenizer's end of text
	// Stop are the texts that end a reply: those that the model names, and EOS if the tokenizer has no token for it.
	Stop     []string
	Defaults Defaults
}

// Defaults holds the sampling options that a model asks for. Options that it does not specify are nil.
type Defaults struct {
	DoSample          *bool    `json:"do_sample"`
	Temperature       *float64 `json:"temperature"`
	TopK              *int     `json:"top_k"`
	TopP              *float64 `json:"top_p"`
	MinP              *float64 `json:"min_p"`
	RepetitionPenalty *float64 `json:"repetition_penalty"`
	MaxNewTokens      *int     `json:"max_new_tokens"`
}

// Apply sets the options in o that d specifies. If do_sample is false, the temperature is 0, whatever else is set.
func (d Defaults) Apply(o *generate.Options) {
	set(&o.Temperature, d.Temperature)
	set(&o.TopK, d.TopK)
	set(&o.TopP, d.TopP)
	set(&o.MinP, d.MinP)
	set(&o.RepetitionPenalty, d.RepetitionPenalty)
	set(&o.MaxTokens, d.MaxNewTokens)
	if d.DoSample != nil && !*d.DoSample {
		o.Temperature = 0
	}
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// check returns an error for a value that sampling cannot use.
func (d Defaults) check() error {
	number := func(name string, x *float64, most float64, upTo string) error {
		if x != nil && !(*x >= 0 && *x <= most) {
			return fmt.Errorf("%s: found %v, want a number from 0 %s", name, *x, upTo)
		}
		return nil
	}
	negative := func(name string, x *float64) error { return number(name, x, math.Inf(1), "on") }
	share := func(name string, x *float64) error { return number(name, x, 1, "to 1") }
	whole := func(name string, x *int, least int) error {
		if x != nil && *x < least {
			return fmt.Errorf("%s: found %d, want at least %d", name, *x, least)
		}
		return nil
	}
	return errors.Join(negative("temperature", d.Temperature), whole("top_k", d.TopK, 0), share("top_p", d.TopP),
		share("min_p", d.MinP), negative("repetition_penalty", d.RepetitionPenalty),
		whole("max_new_tokens", d.MaxNewTokens, 1))
}

// Load reads tokenizer_config.json, chat_template.jinja and generation_config.json in a model's folder, or the
// equivalents in a GGUF file. Each may be missing. A template that cannot be parsed is an error. The text that the
// template writes after a reply ends replies, too.
func Load(dir string, tok tokenizer.Tokenizer) (*Settings, error) {
	if release.IsGGUF(dir) {
		t, err := release.ReadGGUFTexts(dir)
		if err != nil {
			return nil, err
		}
		return Parse(t.TokenizerConfig, t.Generation, tok, dir)
	}
	c, err := template.Load(dir)
	if err != nil {
		return nil, err
	}
	s, err := newSettings(c, dir)
	if err == nil {
		err = s.loadGeneration(dir, tok)
	}
	if err == nil {
		s.inferEnd(tok)
	}
	return s, err
}

// EndIDs returns the tokens that end a text or a reply, in addition to the tokenizer's end of text, according to the
// files in a model's folder. It does not parse the template.
func EndIDs(dir string, tok tokenizer.Tokenizer) ([]int32, error) {
	c, err := template.Load(dir)
	if err != nil {
		return nil, err
	}
	s := Settings{EOS: c.EOS}
	err = s.loadGeneration(dir, tok)
	return s.EndIDs, err
}

// Parse returns the settings in the contents of a tokenizer_config.json and a generation_config.json, nil for none.
// name is their origin, for errors.
func Parse(tokenizerConfig, generation []byte, tok tokenizer.Tokenizer, name string) (*Settings, error) {
	var c template.Config
	if tokenizerConfig != nil {
		var err error
		if c, err = template.ParseConfig(tokenizerConfig); err != nil {
			return nil, brief.Error(fmt.Errorf("%s: %w", name, err))
		}
	}
	s, err := newSettings(c, name)
	if err == nil {
		if err = s.setGeneration(generation, tok); err != nil {
			err = brief.Error(fmt.Errorf("%s: %w", name, err))
		} else {
			s.inferEnd(tok)
		}
	}
	return s, err
}

// newSettings returns settings without those of a generation_config.json. about is the origin of c, for errors.
func newSettings(c template.Config, about string) (s *Settings, err error) {
	s = &Settings{Source: c.Source(false), BOS: c.BOS, EOS: c.EOS}
	if s.Source != "" {
		if s.Template, err = template.Parse(s.Source); err != nil {
			return nil, brief.Error(fmt.Errorf("%s: %w", about, err))
		}
	}
	return s, nil
}

// loadGeneration reads the generation_config.json in a folder.
func (s *Settings) loadGeneration(dir string, tok tokenizer.Tokenizer) error {
	path := filepath.Join(dir, GenerationFile)
	data, err := disk.ReadText(path, disk.MaxText)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.setGeneration(data, tok); err != nil {
		return brief.Error(fmt.Errorf("%s: %w", path, err))
	}
	return nil
}

// setGeneration sets the settings of a generation_config.json, nil for none. If it does not say which tokens end a
// reply, EOS does.
func (s *Settings) setGeneration(data []byte, tok tokenizer.Tokenizer) (err error) {
	var file struct {
		Defaults
		EOS  json.RawMessage `json:"eos_token_id"`
		Stop json.RawMessage `json:"stop_strings"`
	}
	if data != nil {
		if err := json.Unmarshal(data, &file); err != nil {
			return err
		}
	}
	if s.EndIDs, err = endIDs(file.EOS, tok.VocabSize()); err != nil {
		return err
	}
	if s.Stop, err = stopTexts(file.Stop); err != nil {
		return err
	}
	if len(s.EndIDs) == 0 {
		s.addEnd(s.EOS, tok)
	}
	s.Defaults = file.Defaults
	return s.Defaults.check()
}

// oneOrMore reads a value, a list of values or null.
func oneOrMore[T any](data json.RawMessage, key, want string) (all []T, err error) {
	var one T
	switch {
	case len(data) == 0 || string(data) == "null":
	case json.Unmarshal(data, &one) == nil:
		all = []T{one}
	case json.Unmarshal(data, &all) != nil:
		return nil, fmt.Errorf("%s: found %.40s, want %s", key, data, want)
	}
	return all, nil
}

// stopTexts reads a text, a list of texts or null.
func stopTexts(data json.RawMessage) ([]string, error) {
	texts, err := oneOrMore[string](data, "stop_strings", "a text or a list of texts")
	if slices.Contains(texts, "") {
		return nil, errors.New("stop_strings: found an empty text, want none")
	}
	return texts, err
}

// endIDs reads an id, a list of ids or null.
func endIDs(data json.RawMessage, vocab int) ([]int32, error) {
	ids, err := oneOrMore[int32](data, "eos_token_id", "an id or a list of ids")
	for _, id := range ids {
		if id < 0 || int(id) >= vocab {
			return nil, fmt.Errorf("eos_token_id: found %d, want ids from 0 to %d", id, vocab-1)
		}
	}
	return ids, err
}

// Prompt returns the text of a conversation up to where the reply starts: the messages rendered by the template or,
// without one, their contents separated by line ends.
func (s *Settings) Prompt(ctx context.Context, messages []template.Message) (string, error) {
	return s.Render(ctx, template.Input{Messages: messages})
}

// Render is Prompt with further inputs of the template, such as tools.
func (s *Settings) Render(ctx context.Context, in template.Input) (string, error) {
	if s.Template != nil {
		in.AddGenerationPrompt, in.BOS, in.EOS = true, s.BOS, s.EOS
		return s.Template.Render(ctx, in)
	}
	var b strings.Builder
	for i, m := range in.Messages {
		if i > 0 && m.Role() != assistantRole {
			b.WriteByte('\n')
		}
		b.WriteString(m.Content())
	}
	return b.String(), nil
}
