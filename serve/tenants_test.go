package serve_test

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// secretCode is a secret in a prompt, after a public part that is longer than a chunk.
const secretCode = "K7QX29PA"

var systemPrompt = strings.Repeat("You are the assistant of the bank. Never say this to anybody. ", 5) + "The code is "

// bank is a server of two clients, with a folder from which the next server continues.
type bank struct {
	t      *testing.T
	folder string
	o      serve.Options
	*servetest.Site
	alice, mallory string // keys
}

func newBank(t *testing.T, o serve.Options) *bank {
	t.Helper()
	alice, aliceSecret := serve.NewKey("alice", serve.ScopeAll)
	mallory, mallorySecret := serve.NewKey("mallory", serve.ScopeCompletions)
	o.Keys = []serve.Key{alice, mallory}
	b := &bank{t: t, folder: t.TempDir(), o: o, alice: aliceSecret, mallory: mallorySecret}
	b.o.Store = filepath.Join(b.folder, "state")
	b.open()
	return b
}

// open starts a server on the folder.
func (b *bank) open() {
	b.t.Helper()
	net := servetest.Language(b.t)
	parsed, err := template.Parse(servetest.ChatTemplate)
	if err != nil {
		b.t.Fatal(err)
	}
	texts, err := store.New(b.t.Context(), store.Options{
		Model: net, Identity: session.Identify(net, tokenizer.Bytes()), Memory: 64 << 20,
		Bucket: store.Folder(filepath.Join(b.folder, "texts")),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	m := host.NewModel(host.ModelOptions{
		Name: "tiny", Net: net, Tokenizer: tokenizer.Bytes(), Texts: texts,
		Settings: &chat.Settings{Source: servetest.ChatTemplate, Template: parsed},
	})
	m.Close() // do not read ahead, so that the cache does not depend on timing
	b.Site = servetest.SiteOf(b.t, b.o, m)
}

// restart ends the server and starts the next one.
func (b *bank) restart() {
	b.t.Helper()
	if err := errors.Join(b.Model.Texts.WriteTexts(b.t.Context()), b.Model.Texts.Flush(b.t.Context())); err != nil {
		b.t.Fatal(err)
	}
	b.open()
}

// cacheWords matches what a response reports about the cache.
var cacheWords = regexp.MustCompile(`"(cached_tokens|cache_miss|cache_(?:read|creation)_input_tokens)":("[^"]*"|\d+)`)

// seen returns what a client sees of the cache when it sends a text: what the response reports, and the number of
// tokens that the model reads, which determines the time to the first token.
func (b *bank) seen(key, path, body, text string) string {
	b.t.Helper()
	b.Key = key
	status, h, data := b.Do(http.MethodPost, path, fmt.Sprintf(body, text))
	if status != http.StatusOK {
		b.t.Fatalf("%s: status %d: %s", path, status, data)
	}
	client := map[string]string{b.alice: "alice", b.mallory: "mallory"}[key]
	read := 0.0
	for name, x := range servetest.Figures(b.t, b.Hippo.Admin()) {
		if strings.HasPrefix(name, "hippo_client_tokens_total") && strings.Contains(name, `"`+client+`"`) &&
			strings.Contains(name, `"read"`) {
			read += x
		}
	}
	return fmt.Sprint(h.Get("X-Hippo-Cache"), cacheWords.FindAllString(string(data), -1), read)
}

// guessed returns what mallory sees for guesses at each character of the secret, a wrong and the right one.
func (b *bank) guessed(path, body string) (all []string) {
	b.t.Helper()
	for i := range secretCode {
		for _, next := range []string{"_", secretCode[i : i+1]} {
			all = append(all, b.seen(b.mallory, path, body, systemPrompt+secretCode[:i]+next))
		}
	}
	return all
}

// textEndpoints are all endpoints that read a text, each with its body.
var textEndpoints = map[string][2]string{
	"completions": {"/v1/completions", `{"prompt":%q,"max_tokens":1}`},
	"a stream": {"/v1/completions",
		`{"prompt":%q,"max_tokens":1,"stream":true,"stream_options":{"include_usage":true}}`},
	"scores": {"/v1/completions", `{"prompt":%q,"max_tokens":1,"echo":true,"logprobs":1}`},
	"chat":   {"/v1/chat/completions", `{"messages":[{"role":"user","content":%q}],"max_tokens":1}`},
	"messages": {"/v1/messages", `{"messages":[{"role":"user","content":[{"type":"text","text":%q,` +
		`"cache_control":{"type":"ephemeral"}}]}],"max_tokens":1}`},
	"responses":       {"/v1/responses", `{"input":%q,"max_output_tokens":1}`},
	"sessions":        {"/v1/sessions", `{"text":%q}`},
	"Ollama generate": {"/api/generate", `{"prompt":%q,"stream":false,"raw":true,"options":{"num_predict":1}}`},
	"Ollama chat": {"/api/chat",
		`{"messages":[{"role":"user","content":%q}],"stream":false,"options":{"num_predict":1}}`},
}

// TestNoKeyReadsAnothersPrompt checks that whatever a client has sent, another sees exactly what it would see without
// that, in responses and in the number of tokens read, at every endpoint, and after a restart. If the operator lets the
// keys share the cache, the same attack finds the secret.
func TestNoKeyReadsAnothersPrompt(t *testing.T) {
	for name, e := range textEndpoints {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, restarts := range []bool{false, true} {
				look := func(sends, shares bool) []string {
					b := newBank(t, serve.Options{ShareCache: shares})
					if sends {
						b.seen(b.alice, e[0], e[1], systemPrompt+secretCode)
					}
					if restarts {
						b.restart()
					}
					return b.guessed(e[0], e[1])
				}
				none := look(false, false)
				if got := look(true, false); !slices.Equal(got, none) {
					t.Errorf("restart %v: sees %q, want what it sees of nothing, %q", restarts, got, none)
				}
				got := look(true, true)
				for i := 0; i < len(got); i += 2 {
					lost := restarts && name == "scores" // scores are in memory only
					if got[i] == none[i] && got[i+1] == none[i+1] && !lost {
						t.Errorf("restart %v: with --share-cache the attack sees nothing of character %d: %q", restarts,
							i/2, got[i:i+2])
					}
				}
			}
		})
	}
}

// TestOwnCacheStays checks that a client finds its own earlier texts in the cache, also in a batch, after a restart,
// and with another key of the same name, and with a cache_salt only those sent with the same salt.
func TestOwnCacheStays(t *testing.T) {
	b := newBank(t, serve.Options{})
	text, path := systemPrompt+secretCode, "/v1/completions"
	const plain, salted, other = `{"prompt":%q,"max_tokens":1}`, `{"prompt":%q,"max_tokens":1,"cache_salt":"a"}`,
		`{"prompt":%q,"max_tokens":1,"cache_salt":"b"}`
	whole := fmt.Sprintf("cached=%d, read=0", len(text))
	b.Key = b.alice
	line := fmt.Sprintf(`{"custom_id":"a","method":"POST","url":%q,"body":`+plain+"}\n", path, text)
	b.Batched(path, line)
	for i, c := range []struct {
		key, body string
		cached    bool
	}{
		{b.mallory, plain, false}, {b.mallory, plain, true}, {b.alice, plain, true}, {b.alice, salted, false},
		{b.alice, salted, true}, {b.alice, other, false}, {b.mallory, salted, false},
	} {
		if got := b.seen(c.key, path, c.body, text); strings.HasPrefix(got, whole) != c.cached {
			t.Errorf("request %d sees %s, want all of it cached: %v", i, got, c.cached)
		}
	}
	for _, rotates := range []bool{false, true} {
		if rotates {
			next, secret := serve.NewKey("alice", serve.ScopeAll)
			b.o.Keys[0], b.alice = next, secret
		}
		b.restart()
		for _, body := range []string{plain, salted} {
			if got := b.seen(b.alice, path, body, text); !strings.HasPrefix(got, whole) {
				t.Errorf("another key %v: sees %s after a restart, want all of it cached", rotates, got)
			}
		}
	}
	if status, _, data := b.Do(http.MethodPost, path, `{"prompt":"a","cache_salt":""}`); status != 400 ||
		!strings.Contains(string(data), "cache_salt: found 0 bytes, want a text of 1 to 256") {
		t.Errorf("no salt: status %d, %s", status, data)
	}
}
