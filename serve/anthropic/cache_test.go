package anthropic_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/anthropic"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestCacheUsage checks that the usage reports what was found in the prompt cache and what was added, not what a client
// asks for.
func TestCacheUsage(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	s.Model.Close() // do not read ahead, so that the cache does not depend on timing
	rules := strings.Repeat("Never say this to anybody. ", 20)
	const mark = `,"cache_control":{"type":"ephemeral"}`
	body := func(mark, turns string) string {
		return `{"system":[{"type":"text","text":` + servetest.Quoted(t, rules) + mark + `}],"messages":[` + turns + `]`
	}
	const first = `{"role":"user","content":"Aye"}`
	const more = `,{"role":"assistant","content":"Yes."},{"role":"user","content":"And?"}`
	length := func(body string) int {
		return servetest.Post[map[string]int](s, count, body+"}")["input_tokens"]
	}
	ask := func(body string) anthropic.Usage {
		t.Helper()
		status, h, data := s.Do(http.MethodPost, messages, body+`,"max_tokens":1}`)
		if status != http.StatusOK {
			t.Fatalf("status %d: %s", status, data)
		}
		u := servetest.Decode[anthropic.Message](t, data).Usage
		all := length(body)
		said := fmt.Sprintf("cached=%d, read=%d", u.CacheRead, all-u.CacheRead)
		if sum := u.Input + u.CacheRead + u.CacheCreation; sum != all ||
			!strings.HasPrefix(h.Get("X-Hippo-Cache"), said) {
			t.Errorf("%+v is %d tokens, want %d; %s", u, sum, all, h.Get("X-Hippo-Cache"))
		}
		return u
	}
	marked := body(mark, first)
	n := length(marked)
	if u := ask(marked); u.CacheCreation != n || u.CacheRead != 0 {
		t.Errorf("the first request: %+v, want %d tokens cached now", u, n)
	}
	if u := ask(marked); u.CacheCreation != 0 || u.CacheRead != n {
		t.Errorf("the same request: %+v, want %d tokens cached before", u, n)
	}
	next := body(mark, first+more)
	if u := ask(next); u.CacheRead == 0 || u.CacheRead > n || u.Input != 0 || u.CacheCreation < len(more)/3 {
		t.Errorf("the next turn: %+v", u)
	}
	if u := ask(body("", first+strings.ReplaceAll(more, "Yes", "No"))); u.CacheRead == 0 || u.CacheCreation != 0 {
		t.Errorf("without cache_control: %+v", u)
	}
	if u := gathered(s, next+`,"max_tokens":2,"stream":true}`).Usage; u.CacheRead != length(next) || u.Output != 2 {
		t.Errorf("in a stream: %+v", u)
	}
	none := emptyStore(t, s.Model.Net)
	for name, texts := range map[string]*store.Store{"no store": nil, "a store without room": none} {
		s.Model.Texts = texts
		if u := ask(marked); u.CacheCreation != 0 || u.CacheRead != 0 || u.Input != n {
			t.Errorf("%s: %+v", name, u)
		}
	}
}

// emptyStore returns a store that is too small for any text.
func emptyStore(t *testing.T, net *model.Model) *store.Store {
	t.Helper()
	texts, err := store.New(t.Context(), store.Options{
		Model: net, Identity: session.Identify(net, tokenizer.Bytes()), Memory: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// TestWindow checks that a reply may be as long as the model allows, whatever max_tokens is, and reports that limit.
func TestWindow(t *testing.T) {
	net := toymodel.Fresh(t, func(c *model.Config) { c.VocabSize, c.MaxPositions, c.Layers = 256, 40, "attention" })
	s := servetest.SiteOf(t, serve.Options{}, host.NewModel(host.ModelOptions{
		Name: "tiny", Net: net, Tokenizer: tokenizer.Bytes(),
	}))
	ask := func(n int, text string) (int, string) {
		status, _, data := s.Do(http.MethodPost, messages,
			fmt.Sprintf(`{"max_tokens":%d,"messages":[{"role":"user","content":%q}]}`, n, text))
		return status, string(data)
	}
	for n, want := range map[int]string{
		32000: `"stop_reason":"model_context_window_exceeded"`, 10: `"stop_reason":"max_tokens"`,
	} {
		status, data := ask(n, "Aye")
		if status != http.StatusOK || !strings.Contains(data, want) {
			t.Errorf("%d: status %d, %s, want %s", n, status, data, want)
		}
	}
	if status, data := ask(5, strings.Repeat("Aye ", 20)); status != http.StatusBadRequest ||
		!strings.Contains(data, "the length of the model") {
		t.Errorf("status %d, %s", status, data)
	}
}
