package servetest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/tokenizer/bpe"
	"github.com/hippo-ssm/hippo/tokenizer/gguf"
)

// markedTemplate is a template like those of published models, with special tokens around each message.
const markedTemplate = `{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// Corpus is the text that the tokenizers of tests are trained on.
var Corpus = strings.Repeat("Call me Ishmael. Some years ago, never mind how long precisely, having little money, "+
	"die Walfänger fuhren über das Meer, киты плавали вокруг. ", 8)

// ByteBPE returns a byte-level BPE tokenizer.
func ByteBPE(t testing.TB) tokenizer.Tokenizer {
	t.Helper()
	tok, err := bpe.Train(strings.NewReader(Corpus), bpe.TrainOptions{
		VocabSize: 400, Specials: []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// SentencePieces returns a tokenizer like SentencePiece's, which adds a space before every text.
func SentencePieces(t testing.TB) tokenizer.Tokenizer {
	t.Helper()
	v := gguf.Vocabulary{Model: "llama", BOS: 1, EOS: 2}
	add := func(text string, kind int32) {
		v.Tokens, v.Types = append(v.Tokens, text), append(v.Types, kind)
		v.Scores = append(v.Scores, -float32(len(v.Tokens)))
	}
	add("<unk>", 2)
	add("<s>", 3)
	add("</s>", 3)
	add("<|im_start|>", 4)
	add("<|im_end|>", 4)
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), 6)
	}
	for _, piece := range strings.Fields("▁m er il ll ▁mer e r m i l n o ▁ user assistant ess ag on is a s t") {
		add(piece, 1)
	}
	tok, err := gguf.FromVocabulary(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// Tokenized starts a server of a model with a tokenizer and a chat template, and a store in a folder.
func Tokenized(t testing.TB, tok tokenizer.Tokenizer, folder string) *Site {
	t.Helper()
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.Layers, c.NumHeads, c.DState, c.DInner = 16, tok.VocabSize(), "mamba,attention", 2, 8, 24
	net, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	net.Init(1)
	parsed, err := template.Parse(markedTemplate)
	if err != nil {
		t.Fatal(err)
	}
	o := store.Options{Model: net, Identity: session.Identify(net, tok), Memory: 64 << 20}
	if folder != "" {
		o.Bucket = store.Folder(filepath.Join(folder, "texts"))
	}
	texts, err := store.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	runner := session.NewScheduler(net, session.SchedulerOptions{Waiting: 1 << 20})
	t.Cleanup(runner.Close)
	m := host.NewModel(host.ModelOptions{
		Name: "tiny", Net: net, Tokenizer: tok, Runner: runner, Texts: texts,
		Settings: &chat.Settings{Source: markedTemplate, Template: parsed},
	})
	t.Cleanup(m.Close)
	return SiteOf(t, serve.Options{Store: folder}, m)
}

// Speak gives the site's model a chat template.
func (s *Site) Speak(source string) {
	s.T.Helper()
	parsed, err := template.Parse(source)
	if err != nil {
		s.T.Fatal(err)
	}
	s.Model.Settings = &chat.Settings{Source: source, Template: parsed}
}

// ErrorAnswer is an error in OpenAI's format.
type ErrorAnswer struct {
	Error struct{ Message, Param string }
}

// ToolTemplates holds small templates that support tools, by the format of their calls.
var ToolTemplates = map[string]string{
	"objects": `{% if tools %}{{ tools | tojson }}<tool_call>{% endif %}` + calling,
	"list":    `{% if tools %}{{ tools | tojson }}<TOOLCALL>{% endif %}` + calling,
	"granite": `{% if tools %}{{ tools | tojson }}<|tool_call|>{% endif %}` + calling,
	"jamba":   `{% if tools %}{{ tools | tojson }}<tool_calls>{% endif %}` + calling,
	"tags":    `{% if tools %}{{ tools | tojson }}<tool_call><function=f>{% endif %}` + calling,
	"lines":   `{% if tools %}{{ tools | tojson }}<function_calls>{% endif %}` + calling,
	"marked":  `{% if tools %}{{ tools | tojson }}<|tool_calls_section_begin|>{% endif %}` + calling,
	"python":  `{% if tools %}{{ tools | tojson }}<|tool_list_start|>{% endif %}` + ChatTemplate,
}

// CallPrefix returns how the ids of calls begin in a format: in Kimi's format, the model itself chooses them.
func CallPrefix(form, function string) string {
	if form == "marked" {
		return "functions." + function + ":"
	}
	return "call_"
}

const calling = `{% for m in messages %}<{{ m.role }}>{% for c in m.tool_calls %}` +
	`[{{ c.function.name }} {{ c.function.arguments.x }}]{% endfor %}{{ m.content }}
{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`
