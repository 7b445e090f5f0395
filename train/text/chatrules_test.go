package text

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/release"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// folderOf returns a folder with the given files.
func folderOf(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		write(t, path, []byte(text))
	}
	return dir
}

// told returns the contents of files as text, or the error.
func told(files map[string][]byte, err error) string {
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		all = append(all, name+"="+string(files[name]))
	}
	return strings.Join(all, "; ")
}

// TestNamedTemplates checks what may be named as a template, how it combines with the files of the model that a run
// starts from, and the errors for anything else.
func TestNamedTemplates(t *testing.T) {
	source, conf, gen := template.SourceFile, template.ConfigFile, template.GenerationFile
	const config = `{"chat_template": "{{ b }}"}`
	dir := folderOf(t, map[string]string{
		"a.jinja": "{{ a }}", "b.JSON": config, "none.json": `{"eos_token": "x"}`, "bad.json": "{", "bad.jinja": "{{",
		"one/" + source: "{{ d }}", "folder/" + conf + "/x": "", "both/" + source: "{{ c }}", "both/" + conf: `{}`,
		"both/" + release.PublishedFile: "{}", "empty/x": "",
		"base/" + source: "{{ base }}", "base/" + gen: `{"top_k": 3}`,
	})
	for spec, want := range map[string]string{
		"a.jinja": source + "={{ a }}", "b.JSON": conf + "=" + config, "both": source + "={{ c }}; " + conf + "={}",
		"one": source + "={{ d }}", "folder": "found a folder, want a regular file",
		"none.json": "none.json: found no chat_template in it", "bad.json": "bad.json: unexpected end",
		"bad.jinja": "bad.jinja: ", "empty": "found no chat template in the folder ", "gone": "gone: no such file or " +
			"directory; want a file, a folder or chatml",
	} {
		c := Config{Template: filepath.Join(dir, spec)}
		got := told(c.chatTexts())
		if strings.Contains(want, "=") && got != want || !strings.Contains(got, want) ||
			!strings.Contains(want, "=") && !strings.HasPrefix(got, "template: ") {
			t.Errorf("%s: found %q, want %q", spec, got, want)
		}
	}
	c := Config{Template: chatMLName}
	ml := told(c.chatTexts())
	if ml != source+"="+chatML+"; "+conf+"="+chatMLConfig {
		t.Errorf("chatml: %q", ml)
	}
	base := filepath.Join(dir, "base")
	for _, k := range []struct {
		c    Config
		want string
	}{
		{Config{}, ""},
		{Config{Init: "x", Base: Base{Path: base}}, source + `={{ base }}; ` + gen + `={"top_k": 3}`},
		{Config{Init: "x"}, ""},
		// the named template replaces the model's, which is in another file
		{Config{Init: "x", Base: Base{Path: base}, Template: filepath.Join(dir, "b.JSON")},
			gen + `={"top_k": 3}; ` + conf + "=" + config},
		{Config{Template: filepath.Join(dir, "a.jinja"), chat: map[string][]byte{"y": []byte("z")}}, "y=z"},
	} {
		if got := told(k.c.chatTexts()); got != k.want {
			t.Errorf("%+v: found %q, want %q", k.c, got, k.want)
		}
	}
	t.Chdir(folderOf(t, map[string]string{chatMLName: "{{ own }}"}))
	if got := told((&Config{Template: chatMLName}).chatTexts()); got != source+"={{ own }}" {
		t.Errorf("a file called chatml: %q", got)
	}
}

// TestChatFiles checks what a reader of chats takes from the files of a model and its tokenizer.
func TestChatFiles(t *testing.T) {
	const ends = "{% for m in messages %}{{ m.content }}<x>{% endfor %}"
	tok, err := tokenizer.Characters(strings.NewReader("abc<x>/."))
	if err != nil {
		t.Fatal(err)
	}
	id, err := tok.Encode(nil, []byte("c"))
	if err != nil {
		t.Fatal(err)
	}
	gpt2 := tokenizer.GPT2()
	for _, k := range []struct {
		config, source, generation, end string
		tok                             tokenizer.Tokenizer
		want                            string // ends, unnamed, end, checked
	}{
		{"", "", "", "", nil, "[] [] | false"},
		{"", "", "", "", tok, "[] [] | true"},
		{"", "", "", "<e>", tok, "[] [] <e>| true"},
		{`{"eos_token": "<s>"}`, "", "", "", nil, "[<s>] [] <s>| false"},
		{`{"eos_token": "<s>"}`, "", "", "<e>", nil, "[<s>] [] <e>| false"},
		{"", ends, "", "", nil, "[<x>] [<x>] | false"},
		{"", ends, "", "<e>", nil, "[<e> <x>] [<e> <x>] <e>| false"},
		{"", ends, "", "<x>", nil, "[<x>] [<x>] <x>| false"},
		{`{"eos_token": "x"}`, ends, "", "", nil, "[x] [] x| false"}, // a part of the end that the template writes
		{"", "", "", "", gpt2, "[<|endoftext|>] [] <|endoftext|>| true"},
		{`{"eos_token": "<s>"}`, "", "", "", gpt2, "[<s>] [] <s>| true"},
		{"", "", fmt.Sprintf(`{"eos_token_id": %d}`, id[0]), "", tok, "[c] [] c| true"},
		{`{"eos_token": "b"}`, "", fmt.Sprintf(`{"eos_token_id": [%d]}`, id[0]), "", tok, "[c b] [] b| true"},
		{`{"chat_template": "` + ends + `"}`, "", "", "", nil, "[<x>] [<x>] | false"},
		{`{"chat_template": "` + ends + `"}`, "{{ messages[0].content }}", "", "", nil, "[] [] | false"},
		{"{", "", "", "", nil, "tokenizer_config.json: unexpected end of JSON input"},
		{"", "", "{", "", tok, "generation_config.json: unexpected end of JSON input"},
		{"", "{{", "", "", nil, ""},
	} {
		files := map[string][]byte{}
		for name, text := range map[string]string{template.ConfigFile: k.config, template.SourceFile: k.source,
			template.GenerationFile: k.generation} {
			if text != "" {
				files[name] = []byte(text)
			}
		}
		c, err := newChats(files, k.end, k.tok)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(c.ends, " ", c.unnamed, " ", c.end, "| ", c.checked)
		}
		if got != k.want && k.want != "" || k.want == "" && err == nil {
			t.Errorf("%+v: found %q", k, got)
		}
	}
	one, err := newChats(map[string][]byte{template.SourceFile: []byte(ends)}, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := one.last([]data.Part{{Text: "q"}, {Text: "a"}, {}}); got[1].Text != "a" {
		t.Errorf("without an end to learn the last reply is %q", got[1].Text)
	}
	one.end = "<e>"
	for reply, want := range map[string]string{"a": "a<e>", "a<x>": "a<x>"} {
		if got := one.last([]data.Part{{Text: "q"}, {Text: reply}, {}}); got[1].Text != want || got[0].Text != "q" {
			t.Errorf("the last reply %q becomes %q, want %q", reply, got[1].Text, want)
		}
	}
	seen := map[string]bool{}
	for _, c := range []chats{{}, {source: "a"}, {bos: "a"}, {eos: "a"}, {ends: []string{"a"}}, {end: "a"}} {
		seen[c.Fingerprint()] = true
	}
	if len(seen) != 6 {
		t.Errorf("%d fingerprints of six readers", len(seen))
	}
	texts, err := withEnds(map[string][]byte{template.SourceFile: []byte(ends)}, "<e>", tok)
	if got := told(texts, err); !strings.Contains(got, `"eos_token": "<e>"`) || !strings.Contains(got, "stop_strings") {
		t.Errorf("files with the ends named: %q", got)
	}
	if texts, err := withEnds(nil, "<e>", tok); err != nil || len(texts) != 0 {
		t.Errorf("ends without a template: %q, %v", texts, err)
	}
}

// TestReadChats checks the documents of lines of chats, with given parts in brackets, and the errors for invalid lines.
func TestReadChats(t *testing.T) {
	const plain = `{% for m in messages %}{{ m.role[0] }}:{{ m.content }}|{% endfor %}` +
		`{% if add_generation_prompt %}a:{% endif %}`
	q, a := `{"role": "user", "content": "Q"}`, `{"role": "assistant", "content": "A"}`
	for _, k := range []struct{ source, line, want string }{
		{plain, `{"messages": [` + q + `,` + a + `]}`, "[u:Q|a:]A|[]"},
		{plain, `{"messages": [` + q + `,` + a + `,` + q + `,` + a + `]}`, "[u:Q|a:]A|[][u:Q|a:]A|[]"},
		{plain, `{"messages": [` + q + `,` + a + `,` + q + `]}`, "[u:Q|a:]A|[]"},
		{plain, `{"prompt": [` + q + `], "completion": [` + a + `]}`, "[u:Q|a:]A|[]"},
		{plain, `{"prompt": [` + q + `], "response": [` + a + `]}`, "[u:Q|a:]A|[]"},
		{plain, `{"prompt": [` + q + `,` + a + `,` + q + `], "completion": [` + a + `]}`, "[u:Q|a:A|u:Q|a:]A|[]"},
		{plain, `{"prompt": "q", "completion": "a"}`, "[q]a"},
		{plain, `{"prompt": "q", "response": "a"}`, "[q]a"},
		{plain, `{"prompt": "q", "completion": "a", "response": "b"}`, "[q]a"},
		{plain, `{"conversations": [{"from": "human", "value": "Q"}, {"from": "gpt", "value": "A"}]}`, "[u:Q|a:]A|[]"},
		{plain, `{"messages": [` + q + `,{"role": "assistant", "content": "A", "weight": 0.5}]}`, "[u:Q|a:]A|[]"},
		{plain, `{"messages": [` + q + `,{"role": "assistant", "content": "A", "weight": 0}]}`,
			"found no message of the assistant that counts"},
		{plain, `{"messages": [` + q + `,{"role": "assistant", "content": "", "tool_calls": [1]}]}`, "[u:Q|a:]|[]"},
		{plain, `{"messages": [` + q + `,{"role": "assistant", "content": null}]}`,
			"messages[1].content: found nothing"},
		{plain, `{"messages": [` + q + `,{"role": "assistant"}]}`, "messages[1].content: found nothing"},
		{"{% for m in messages %}{{ m.role[0] }}:{{ m.tool_calls }}{% endfor %}",
			`{"messages": [` + q + `,{"role": "assistant", "content": null, "tool_calls": [7]}]}`, "[u:]a:[7][]"},
		{"{% for m in messages %}{{ m.role[0] }}:{{ m.function_call }}{% endfor %}",
			`{"messages": [` + q + `,{"role": "assistant", "function_call": 7}]}`, "[u:]a:7[]"},
		{plain, `{"messages": [{"role": "user", "tool_calls": [1]},` + a + `]}`, "messages[0].content: found nothing"},
		{plain, `{"messages": [` + q + `,{"role": "assistant", "content": 7}]}`, "messages[1].content: found 7"},
		{plain, `{"messages": [` + q + `,{"role": "assistant", "content": "A", "weight": "x"}]}`, "messages[1]: "},
		{plain, `{"messages": 7}`, "messages: found 7, want a list"}, {plain, `{"messages": []}`, "messages: found []"},
		{plain, `{"prompt": 7, "completion": [` + a + `]}`, "prompt: found 7, want a list"},
		{plain, `{"prompt": [` + q + `], "completion": 7}`, "completion: found 7, want a list"},
		{plain, `{"prompt": "q", "completion": ""}`, "completion: found no text"},
		{plain, `{"prompt": "q"}`, "nor both"}, {plain, `{"completion": "q"}`, "nor both"}, {plain, `{`,
			"unexpected end"},
		{plain, `{"conversations": 7}`, "conversations: found 7"}, {plain, `{"conversations": []}`,
			"conversations: found []"},
		{plain, `{"messages": [` + a + `]}`, `messages[0].role: found "assistant" as the first`},
		{"", `{"messages": [` + q + `,` + a + `]}`, "found messages, but the model has no chat template"},
		{"{{ messages[0].content }}", `{"messages": [` + q + `,` + a + `]}`,
			"messages[1]: the chat template shows nothing"},
		// a reply that does not start as the template starts replies begins where both differ
		{`{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<t>{% endif %}`,
			`{"messages": [` + q + `,{"role": "assistant", "content": "<u>A"}]}`, "[Q<]u>A[]"},
		{`{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}ä{% endif %}`,
			`{"messages": [` + q + `,{"role": "assistant", "content": "öA"}]}`, "[Q]öA[]"},
		{`{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}`,
			`{"messages": [` + q + `,` + a + `]}`, "messages[1]: the chat template changes the messages before"},
		{`{{ raise_exception("no") if messages | length > 1 }}`, `{"messages": [` + q + `,` + a + `]}`,
			"messages[1]: "},
		{`{{ raise_exception("no") if messages | length < 2 }}`, `{"messages": [` + q + `,` + a + `]}`,
			"messages[0]: "},
		{`{{ tools | length }}{% for m in messages %}{{ m.content }}{% endfor %}`,
			`{"messages": [` + q + `,` + a + `], "tools": [{}, {}]}`, "[2Q]A[]"},
		{`{{ bos_token }}{{ strftime_now("%Y-%m-%d") }}` +
			`{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}`,
			`{"messages": [` + q + `,` + a + `]}`, "[B2026-01-01QE]AE[]"},
		{`{{ messages[0].content }}{% if add_generation_prompt %}<t>{% endif %}`, `{"messages": [` + q + `,` + a + `]}`,
			"messages[1]: the chat template shows nothing"},
		{`{% if messages | length == 1 and not add_generation_prompt %}{{ raise_exception("no") }}{% endif %}` +
			`{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<t>{% endif %}`,
			`{"messages": [` + q + `,` + a + `]}`, "messages[0]: "},
		{`{% for m in messages %}{{ m.content | length }}{% endfor %}`, `{"messages": [{"role": "user", "content": [` +
			`{"type": "text", "text": "Q"}]},` + a + `]}`, "[1]1[]"},
		{`{{ raise_exception("no") }}`, `{"messages": [` + q + `,` + a + `]}`, "messages[0]: "},
		{`{% for m in messages %}{% if m.role == 'assistant' %}{{ m.content }}{% endif %}{% endfor %}` +
			`{% if add_generation_prompt %}ä{% endif %}`,
			`{"messages": [` + q + `,{"role": "assistant", "content": "öA"}]}`,
			"[]öA[]"},
		// an earlier reply that is rendered differently is in a document of its own
		{templates["forgets"], `{"messages": [` + q + `,{"role": "assistant", "content": "t/A"},` + q +
			`,{"role": "assistant", "content": "u/B"}]}`, "[<u>Q<a>]t/AE[] + [<u>Q<a>AE<u>Q<a>]u/BE[]"},
	} {
		files := map[string][]byte{template.ConfigFile: []byte(`{"eos_token": "E", "bos_token": "B"}`)}
		if k.source != "" {
			files[template.SourceFile] = []byte(k.source)
		}
		if k.source == plain {
			files[template.ConfigFile] = []byte(`{"eos_token": "|"}`)
		} else if !strings.Contains(k.source, "eos_token") {
			files[template.ConfigFile] = []byte(`{}`)
		}
		c, err := newChats(files, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		documents, err := c.Read([]byte(k.line))
		var all []string
		for _, parts := range documents {
			text := ""
			for _, p := range parts {
				if p.Given {
					p.Text = "[" + p.Text + "]"
				}
				text += p.Text
			}
			all = append(all, text)
		}
		got := strings.Join(all, " + ")
		if err != nil {
			got = err.Error()
		}
		if got != k.want && (err == nil || !strings.Contains(got, k.want)) {
			t.Errorf("%s by %s: found %q, want %q", k.line, k.source, got, k.want)
		}
	}
	ends, err := newChats(map[string][]byte{template.SourceFile: []byte(plain)}, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	ends.ends, ends.checked = nil, true
	line := []byte(`{"messages": [` + q + `,` + a + `]}`)
	if _, err := ends.Read(line); err == nil || !strings.Contains(err.Error(),
		"messages[1]: the chat template writes no") {
		t.Errorf("no end: %v", err)
	}
	if day := chatDay.Format(time.RFC3339Nano); day != "2026-01-01T00:00:00Z" {
		t.Errorf("chats are on %s", day)
	}
	for from, role := range speakers {
		all,
			err := shared(json.RawMessage(fmt.Sprintf(`[{"from": "human", "value": "x"}, {"from": %q, "value": "y"}]`,
			from)))
		if err != nil || all[1].Role() != role || all[1].where != "conversations[1]" {
			t.Errorf("%s: %+v, %v", from, all, err)
		}
	}
	many := make([]message, maxMessages)
	for i := range many {
		many[i] = message{Message: template.Text("user", "x")}
	}
	for n, want := range map[int]string{maxMessages: "no message of the assistant",
		maxMessages + 1: "found 1025 messages"} {
		_, err := ends.conversation(append(many, many[0])[:n], nil)
		toymodel.WantError(t, err, want)
	}
}
