package text

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train"
)

// jsonl writes the lines of a JSONL file.
func jsonl(t testing.TB, lines ...any) string {
	t.Helper()
	var b bytes.Buffer
	for _, line := range lines {
		if err := json.NewEncoder(&b).Encode(line); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "lines.jsonl")
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// documents returns n texts of 1 to 60 letters.
func documents(n int) (lines []any) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range n {
		text := make([]byte, 1+rng.IntN(60))
		for i := range text {
			text[i] = "abcdefgh "[rng.IntN(9)]
		}
		lines = append(lines, map[string]string{"text": string(text)})
	}
	return lines
}

// TestEvaluateDocumentsApart checks that the loss of separate documents is the mean over the losses of each alone, in
// windows, with chunks and as a stream.
func TestEvaluateDocumentsApart(t *testing.T) {
	const window = 40
	m := toymodel.New(t, "h3,attention,mamba,gated-conv", 256)
	tokens, corpus, _, err := Tokenize(t.Context(), tokenizer.Bytes(), []string{jsonl(t, documents(12)...)},
		ReadOptions{Cache: data.CacheNone})
	if err != nil {
		t.Fatal(err)
	}
	defer corpus.Close()
	for _, o := range []EvalOptions{{BatchSize: 3}, {BatchSize: 1, Stream: true}, {BatchSize: 2, Chunk: 16}} {
		o.SeqLen = window
		got, err := Evaluate(t.Context(), m, tokens, o)
		if err != nil {
			t.Fatal(err)
		}
		sum, count, bytes := 0.0, 0, int64(0)
		for i := range int(tokens.Documents()) {
			lo, hi, err := tokens.Document(i)
			if err != nil {
				t.Fatal(err)
			}
			bytes += int64(hi - lo - 1)
			for lo < hi-1 { // each piece of a document within a window alone
				to := hi - 1
				if !o.Stream {
					to = min(to, lo-lo%window+window)
				}
				one, err := Evaluate(t.Context(), m, tokens.Slice(lo, to+1), EvalOptions{SeqLen: to - lo, BatchSize: 1})
				if err != nil {
					t.Fatal(err)
				}
				sum, count, lo = sum+one.Loss*float64(one.Tokens), count+one.Tokens, to
			}
		}
		if want := sum / float64(count); got.Tokens != count || got.Bytes != bytes ||
			math.Abs(got.Loss-want) > 1e-5*want {
			t.Errorf("%+v: loss %v over %d tokens of %d bytes, want %v over %d of %d", o, got.Loss, got.Tokens,
				got.Bytes, want, count, bytes)
		}
	}
}

// TestDocumentsResume checks that an interrupted and resumed run on separate documents ends with the same weights as an
// uninterrupted one, also with carried states, and that joined documents give other weights.
func TestDocumentsResume(t *testing.T) {
	file := jsonl(t, documents(60)...)
	for _, carry := range []bool{false, true} {
		config := func() Config {
			c := small(t)
			c.Data, c.Train.CarryState, c.Train.EvalEvery = []string{file}, carry, 6
			return c
		}
		whole := config()
		mustRun(t, whole)
		c := config()
		runUntil(t, c, 3)
		saved, err := ReadRun(c.Out)
		if err != nil || saved.Documents != documentsApart {
			t.Fatalf("documents %q, %v", saved.Documents, err)
		}
		if _, err := Resume(context.Background(), saved, train.Events{}); err != nil {
			t.Fatal(err)
		}
		if weights(t, c.Out) != weights(t, whole.Out) {
			t.Errorf("carry %v: the resumed run has other weights", carry)
		}
		joined := config()
		joined.Documents = documentsJoin
		mustRun(t, joined)
		if weights(t, joined.Out) == weights(t, whole.Out) {
			t.Errorf("carry %v: documents joined give the weights of documents apart", carry)
		}
	}
}

// TestRunOfEarlierVersion checks that a run whose settings do not mention documents continues with joined documents, as
// it started.
func TestRunOfEarlierVersion(t *testing.T) {
	c := small(t)
	c.Documents, c.Train.Clock = documentsJoin, train.WallClock
	c.Data = []string{jsonl(t, documents(60)...)}
	mustRun(t, c)
	path := filepath.Join(c.Out, model.LastDir, train.TrainerFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	delete(all["config"].(map[string]any), "documents")
	if err := os.Remove(filepath.Join(c.Out, model.LastDir, "manifest.json")); err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(all); err == nil {
		err = os.WriteFile(path, text, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	saved, err := ReadRun(c.Out)
	if err != nil || saved.Documents != documentsJoin {
		t.Fatalf("documents %q, %v", saved.Documents, err)
	}
	yaml, err := os.ReadFile(filepath.Join(c.Out, train.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		string(yaml): documentsJoin, strings.ReplaceAll(string(yaml), "documents: join", ""): documentsJoin,
		strings.ReplaceAll(string(yaml), "documents: join", "documents: apart"): documentsApart,
	} {
		if err := os.WriteFile(filepath.Join(c.Out, train.ConfigFile), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if run, _, err := RunOf(c.Out); err != nil || run.Documents != want {
			t.Errorf("documents %q, %v; want %q", run.Documents, err, want)
		}
	}
	saved.Train.Steps += 2
	if _, err := Resume(t.Context(), saved, train.Events{}); err != nil {
		t.Error(err)
	}
}

// templates are chat templates like those of models.
var templates = map[string]string{
	"chatml": chatML,
	"llama2": `{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}` +
		`{{ '[INST] ' + m.content + ' [/INST]' }}{% else %}` +
		`{{ ' ' + m.content + ' ' + eos_token }}{% endif %}{% endfor %}`,
	"plain": `{% for m in messages %}{{ m.role }}: {{ m.content }}` + "\n" + `{% endfor %}` +
		`{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}`,
	"forgets": `{% for m in messages %}{% if m.role == 'assistant' and not loop.last %}` +
		`<a>{{ m.content.split('/')[1] }}{{ eos_token }}{% else %}` +
		`<{{ m.role[0] }}>{{ m.content }}{{ eos_token if m.role == 'assistant' }}{% endif %}` +
		`{% endfor %}{% if add_generation_prompt %}<a>{% endif %}`,
	"thinks": `{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}<e>{% endfor %}` +
		`{% if add_generation_prompt %}<a><think>{% endif %}`,
}

// TestWhatCountsInChats checks that in chats only replies count, including their ends.
func TestWhatCountsInChats(t *testing.T) {
	type turn = map[string]any
	chats := []any{
		turn{"messages": []turn{{"role": "system", "content": "S"}, {"role": "user", "content": "Q"},
			{"role": "assistant", "content": "t/A"}, {"role": "user", "content": "R"},
			{"role": "assistant", "content": "u/ß"}, {"role": "user", "content": "more"}}},
		turn{"messages": []turn{{"role": "user", "content": "Q"}, {"role": "assistant", "content": "x/N", "weight": 0},
			{"role": "user", "content": "R"}, {"role": "assistant", "content": "y/Y"}}},
		turn{"conversations": []turn{{"from": "human", "value": "Q"}, {"from": "gpt", "value": "z/Z"}}},
		turn{"prompt": []turn{{"role": "user", "content": "P"}}, "completion": []turn{{"role": "assistant",
			"content": "c/C"}}},
		turn{"prompt": "two and two is ", "completion": "four"},
	}
	want := map[string][]string{
		"chatml": {"t/A<|im_end|>", "u/ß<|im_end|>", "y/Y<|im_end|>", "z/Z<|im_end|>", "c/C<|im_end|>", "four"},
		"llama2": {" t/A </s>", " u/ß </s>", " y/Y </s>", " z/Z </s>", " c/C </s>", "four"},
		// the template writes no end: that of the model follows the last reply
		"plain": {" t/A\n", " u/ß\n</s>", " y/Y\n</s>", " z/Z\n</s>", " c/C\n</s>", "four"},
		// an earlier reply is rendered differently later, so each reply is in a document of its own
		"forgets": {"t/A</s>", "u/ß</s>", "y/Y</s>", "z/Z</s>", "c/C</s>", "four"},
		"thinks":  {"t/A<e>", "u/ß<e>", "y/Y<e>", "z/Z<e>", "c/C<e>", "four"},
	}
	file := jsonl(t, chats...)
	for name, source := range templates {
		ends := `{"eos_token": "</s>", "bos_token": "<s>"}`
		if name == "chatml" {
			ends = chatMLConfig
		}
		texts := map[string][]byte{"chat_template.jinja": []byte(source), "tokenizer_config.json": []byte(ends)}
		for _, tok := range []tokenizer.Tokenizer{tokenizer.Bytes(), tokenizer.GPT2()} {
			tokens, corpus, _, err := Tokenize(t.Context(), tok, []string{file}, ReadOptions{Cache: data.CacheNone,
				Chat: texts})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			d := &Dataset{Tokenizer: tok, Train: tokens}
			var counts []string
			whole := ""
			for i := range int(tokens.Documents()) {
				spans, _, ok, err := d.Example(i, 1000)
				if err != nil || !ok {
					t.Fatal(ok, err)
				}
				for _, s := range spans {
					whole += s.Text
					if !s.Given {
						counts = append(counts, s.Text)
					}
				}
			}
			if fmt.Sprintf("%q", counts) != fmt.Sprintf("%q", want[name]) {
				t.Errorf("%s, %s: what counts is %q, want %q in %q", name, tok.Kind(), counts, want[name], whole)
			}
			wanted := int64(len(chats))
			if name == "forgets" {
				wanted++
			}
			if n := tokens.Documents(); n != wanted {
				t.Errorf("%s: %d documents of %d chats, want %d", name, n, len(chats), wanted)
			}
			corpus.Close()
		}
	}
}

// TestChatErrors checks that errors of a chat name file, line and message.
func TestChatErrors(t *testing.T) {
	good := `{"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]}`
	texts := map[string][]byte{"chat_template.jinja": []byte(templates["chatml"] +
		`{% if messages[0].content == 'no' %}{{ raise_exception('not that') }}{% endif %}`)}
	for _, c := range []struct{ line, want string }{
		{`{"messages": []}`, `messages: found [], want a list of messages`},
		{`{"messages": {"role": "user"}}`, `messages: found {"role": "user"}, want a list`},
		{`{"messages": [{"content": "Q"}]}`, `messages[0]: a message: found no "role"`},
		{`{"messages": [{"role": "robot", "content": "Q"}]}`, `messages[0].role: found "robot", want one of`},
		{`{"messages": [{"role": "user"}]}`, `messages[0].content: found nothing`},
		{`{"messages": [{"role": "user", "content": 7}]}`, `messages[0].content: found 7, want a text`},
		{`{"messages": [{"role": "user", "content": "Q"}]}`, "found no message of the assistant"},
		{`{"messages": [{"role": "assistant", "content": "A"}]}`, `messages[0].role: found "assistant" as the first`},
		{`{"messages": [{"role": "user", "content": "no"}, {"role": "assistant", "content": "A"}]}`, "not that"},
		{`{"conversations": [{"from": "bot", "value": "x"}]}`, `conversations[0].from: found "bot"`},
		{`{"conversations": [{"from": "gpt"}]}`, `conversations[0].value: found nothing`},
		{`{"prompt": "x", "completion": ""}`, "completion: found no text"},
		{`{"messages": [` + strings.Repeat(`{"role": "user", "content": "Q"},`, 1024) +
			`{"role": "assistant", "content": "A"}]}`, "found 1025 messages in one chat, want at most 1024"},
		{`{"text": "x"}`, `found none of "messages"`}, {`[]`, "want an object"}, {`{"messages": `, "not a JSON object"},
	} {
		path := filepath.Join(t.TempDir(), "chats.jsonl")
		if err := os.WriteFile(path, []byte(good+"\n\n"+c.line+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		_, _, _, err := Tokenize(t.Context(), tokenizer.Bytes(), []string{path}, ReadOptions{Cache: data.CacheNone,
			Chat: texts})
		if err == nil || !strings.Contains(err.Error(), "chats.jsonl:3: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one of line 3 with %q", c.line, err, c.want)
		}
	}
	_, _, _, err := Tokenize(t.Context(), tokenizer.Bytes(), []string{jsonl(t, json.RawMessage(good))},
		ReadOptions{Cache: data.CacheNone})
	if err == nil || !strings.Contains(err.Error(), "no chat template; want --template FILE (or chatml)") {
		t.Errorf("without a template: %v", err)
	}
}

// TestTemplateWithoutReplies checks that a template that does not render replies is an error.
func TestTemplateWithoutReplies(t *testing.T) {
	file := jsonl(t, json.RawMessage(`{"messages": [{"role": "user", "content": "Q"}, {"role": "assistant", `+
		`"content": "A"}]}`))
	for _, source := range []string{"nothing", "{{ messages[0].content }}"} {
		_, _, _, err := Tokenize(t.Context(), tokenizer.Bytes(), []string{file}, ReadOptions{Cache: data.CacheNone,
			Chat: map[string][]byte{"chat_template.jinja": []byte(source)}})
		if err == nil || !strings.Contains(err.Error(), "messages[1]: the chat template shows nothing of this reply") {
			t.Errorf("%q: %v", source, err)
		}
	}
}

// TestLongQuestions checks that a run whose sequences are shorter than a question still measures replies, and that a
// run whose validation text has no replies does not start.
func TestLongQuestions(t *testing.T) {
	c := small(t)
	var chats []any
	for range 20 {
		chats = append(chats, map[string]string{"prompt": strings.Repeat("long ", 60), "completion": "short"})
	}
	c.Data, c.Train.EvalTokens = []string{jsonl(t, chats...)}, 40
	if res := mustRun(t, c); res.ValidLoss <= 0 {
		t.Errorf("a loss of %v", res.ValidLoss)
	}
	c.Out += "-2"
	c.Valid = []string{jsonl(t, map[string]string{"text": "a"}, map[string]string{"text": "b"})}
	if _, err := Run(t.Context(), c, train.Events{}); err == nil ||
		!strings.Contains(err.Error(), "validation text: found nothing in 2 tokens that counts") {
		t.Errorf("nothing to measure: %v", err)
	}
}

// TestTrainOnChats checks that a run learns the replies and not the questions, and that its model has the chat
// template.
func TestTrainOnChats(t *testing.T) {
	c := small(t)
	rng := rand.New(rand.NewPCG(1, 2))
	var chats []any
	for range 60 { // random questions, one answer
		q := make([]byte, 20)
		for i := range q {
			q[i] = byte('a' + rng.IntN(26))
		}
		chats = append(chats, map[string]any{"messages": []map[string]string{{"role": "user", "content": string(q)},
			{"role": "assistant", "content": "yes"}}})
	}
	c.Data, c.Template = []string{jsonl(t, chats...)}, chatMLName
	c.Train.SeqLen, c.Train.Steps, c.Optim.LR = 128, 60, 2e-2
	c.Train.EvalEvery, c.Train.SaveEvery, c.Train.SampleEvery, c.Train.SamplePrompt = 30, 60, 0, ""
	c.Model.EmbedDropout, c.Model.AttnDropout, c.Model.ResidDropout = 0, 0, 0
	res := mustRun(t, c)
	if res.ValidLoss > 0.3 { // the loss of a random letter of a question is ln 26
		t.Errorf("loss %v, want that of an answer that is always the same", res.ValidLoss)
	}
	if !strings.HasPrefix(res.Prompt, "<|im_start|>user\n") || !strings.HasSuffix(res.Prompt, "assistant\n") {
		t.Errorf("sample texts go on from %q", res.Prompt)
	}
	for _, dir := range []string{model.BestDir, model.LastDir} {
		got, err := os.ReadFile(filepath.Join(c.Out, dir, "chat_template.jinja"))
		if string(got) != chatML || err != nil {
			t.Errorf("%s: template %q, %v", dir, got, err)
		}
	}
	again, err := ReadRun(c.Out)
	if err != nil {
		t.Fatal(err)
	}
	again.Train.Steps, again.Template = 62, filepath.Join(t.TempDir(), "gone")
	if _, err := Resume(t.Context(), again, train.Events{}); err != nil {
		t.Error(err)
	}
}
