package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// Names of the files in a model's folder that describe its chats. This package reads the first two.
const (
	SourceFile     = "chat_template.jinja"
	ConfigFile     = "tokenizer_config.json"
	GenerationFile = "generation_config.json"
)

// Config is the chat configuration in the files beside a model's tokenizer.
type Config struct {
	Sources  map[string]string // templates by name; the main one is "default"
	BOS, EOS string            // the tokens that begin and end a text, as text
}

// named maps a name that a file contains instead of a template to the template: llama.cpp's conversion of RWKV models
// writes the name of a format that llama.cpp has built in.
var named = map[string]string{
	"rwkv-world": "{% for m in messages %}{% if m.role == 'system' %}System: {% elif m.role == 'user' %}User: " +
		"{% else %}Assistant: {% endif %}{{ m.content | trim }}\n\n{% endfor %}" +
		"{% if add_generation_prompt %}Assistant:{% endif %}",
}

// Source returns the template for a chat, with tools or without, or "" if there is none.
func (c Config) Source(tools bool) string {
	source := c.Sources["default"]
	if other := c.Sources["tool_use"]; tools && other != "" {
		source = other
	}
	if known := named[source]; known != "" {
		return known
	}
	return source
}

// Load reads chat_template.jinja and tokenizer_config.json in a model's folder. Either may be missing. If both contain
// a template, chat_template.jinja takes precedence, as in transformers.
func Load(dir string) (Config, error) {
	c := Config{Sources: map[string]string{}}
	path := filepath.Join(dir, ConfigFile)
	data, err := disk.ReadText(path, disk.MaxText)
	if err == nil {
		c, err = ParseConfig(data)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Config{}, brief.Error(fmt.Errorf("%s: %w", path, err))
	}
	source, err := disk.ReadText(filepath.Join(dir, SourceFile), maxSource)
	if err == nil {
		c.Sources["default"] = string(source)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return Config{}, err
	}
	return c, nil
}

// ParseConfig parses the content of a tokenizer_config.json.
func ParseConfig(data []byte) (Config, error) {
	var file struct {
		Template json.RawMessage `json:"chat_template"`
		BOS      specialToken    `json:"bos_token"`
		EOS      specialToken    `json:"eos_token"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return Config{}, err
	}
	c := Config{Sources: map[string]string{}, BOS: string(file.BOS), EOS: string(file.EOS)}
	if len(file.Template) == 0 || string(file.Template) == "null" {
		return c, nil
	}
	var source string
	if json.Unmarshal(file.Template, &source) == nil {
		c.Sources["default"] = source
		return c, nil
	}
	var named []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if err := json.Unmarshal(file.Template, &named); err != nil {
		return Config{}, fmt.Errorf("chat_template: found %.40q, want a text, or a list of texts with names",
			file.Template)
	}
	for _, t := range named {
		c.Sources[t.Name] = t.Template
	}
	return c, nil
}

// specialToken is the text of a token. In JSON it is a string, null, or an object with the text as its content.
type specialToken string

func (t *specialToken) UnmarshalJSON(data []byte) error {
	var text *string
	if json.Unmarshal(data, &text) == nil {
		if text != nil {
			*t = specialToken(*text)
		}
		return nil
	}
	var object struct {
		Content string `json:"content"`
	}
	err := json.Unmarshal(data, &object)
	*t = specialToken(object.Content)
	return err
}
