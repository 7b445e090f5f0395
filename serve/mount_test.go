package serve_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/reply"
	"github.com/hippo-ssm/hippo/serve/sessions"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/receipt"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Two texts, each longer than a chunk.
var (
	handbook = strings.Repeat("The whale swims in the sea, and it is white. ", 7)
	appendix = strings.Repeat("Nobody has caught it, and many have tried. ", 8)
)

// chunk is the chunk of the sites' model.
const chunk = 256

// keepText stores a text under a name.
func keepText(s *servetest.Site, name, text string) sessions.Text {
	s.T.Helper()
	status, _, data := s.Do(http.MethodPut, "/v1/library/"+name, fmt.Sprintf(`{"text":%q}`, text))
	if status != http.StatusOK {
		s.T.Fatalf("%s: status %d: %s", name, status, data)
	}
	return servetest.Decode[sessions.Text](s.T, data)
}

// dialects are endpoints that mount texts: a body with mount, and one that sends the mounted text.
var dialects = []struct{ path, mounts, sends string }{
	{"/v1/completions", `{"mount":%s,"prompt":"Who is it?","max_tokens":9,"seed":3,"receipt":true}`,
		`{"prompt":%s,"max_tokens":9,"seed":3,"receipt":true}`},
	{"/v1/chat/completions",
		`{"mount":%s,"messages":[{"role":"user","content":"Who is it?"}],"max_tokens":9,"seed":3,"receipt":true}`,
		`{"messages":[{"role":"system","content":%s},{"role":"user","content":"Who is it?"}],"max_tokens":9,
			"seed":3,"receipt":true}`},
	{"/v1/chat/completions",
		`{"mount":%s,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Who?"}],
			"max_tokens":9,"seed":3,"receipt":true}`,
		`{"messages":[{"role":"system","content":%s},{"role":"user","content":"Who?"}],"max_tokens":9,
			"seed":3,"receipt":true}`},
	{"/v1/messages",
		`{"mount":%s,"model":"tiny","messages":[{"role":"user","content":"Who?"}],"max_tokens":9,"seed":3,
			"receipt":true}`,
		`{"system":%s,"model":"tiny","messages":[{"role":"user","content":"Who?"}],"max_tokens":9,"seed":3,
			"receipt":true}`},
	{"/v1/responses", `{"mount":%s,"input":"Who?","max_output_tokens":9,"seed":3,"receipt":true}`,
		`{"instructions":%s,"input":"Who?","max_output_tokens":9,"seed":3,"receipt":true}`},
}

// asked sends a request with a receipt, and returns the receipt and the number of tokens read for it.
func asked(s *servetest.Site, path, body string) (r *receipt.Receipt, read int) {
	s.T.Helper()
	status, h, data := s.Do(http.MethodPost, path, body)
	all := receiptsIn(s.T, data)
	if status != http.StatusOK || len(all) != 1 {
		s.T.Fatalf("%s %s: status %d: %s", path, body, status, data)
	}
	r, _, err := receipt.Read(all[0])
	if err != nil {
		s.T.Fatal(err)
	}
	var cached int
	if _, err := fmt.Sscanf(h.Get("X-Hippo-Cache"), "cached=%d, read=%d", &cached, &read); err != nil {
		s.T.Fatalf("%s: %v", h.Get("X-Hippo-Cache"), err)
	}
	return r, read
}

// TestMount checks that a reply to a request that mounts texts is bit-identical to one that sends the texts to a server
// with an empty cache, in every dialect and in any order. Texts are read only once, also across a restart, and an audit
// from the state named by the receipt succeeds.
func TestMount(t *testing.T) {
	dir := t.TempDir()
	s := servetest.NewSite(t, serve.Options{Store: dir})
	a, b := keepText(s, "a", handbook), keepText(s, "b", appendix)
	if a.Tokens != chunk || a.Bytes != int64(len(handbook)) || a.Owner != "key" || a.State == b.State {
		t.Errorf("got %+v, %+v", a, b)
	}
	s = servetest.NewSite(t, serve.Options{Store: dir}) // with an empty cache
	cacheless := servetest.Model(t, "tiny")
	cacheless.Texts = nil
	plain := servetest.SiteOf(t, serve.Options{Store: dir}, cacheless) // reads everything from the start
	for i, d := range dialects {
		orders := [][]string{{"a"}, {"a", "b"}, {"b", "a"}}
		if i > 1 {
			orders = orders[1:2]
		}
		for _, names := range orders {
			text := ""
			for _, name := range names {
				text += map[string]string{"a": handbook, "b": appendix}[name] + "\n\n"
			}
			sent := text
			switch i {
			case 0:
				sent += "Who is it?"
			case 2:
				sent += "Be brief."
			}
			want, _ := asked(plain, d.path, fmt.Sprintf(d.sends, servetest.Quoted(t, sent)))
			body := fmt.Sprintf(d.mounts, servetest.Quoted(t, names))
			got, first := asked(s, d.path, body)
			_, second := asked(s, d.path, body)
			if got.PromptHash != want.PromptHash || !slices.Equal(got.IDs, want.IDs) ||
				!slices.Equal(got.Chain, want.Chain) {
				t.Errorf("%s %v: another reply than to the texts themselves", d.path, names)
			}
			most := len(text) - chunk + 64 // without the first text's state and what follows the texts
			if i == 0 {
				most += chunk // its prompts begin differently
			}
			if first > most || second > chunk+len(sent)-len(text)+64 {
				t.Errorf("%s %v: read %d tokens and then %d of %d", d.path, names, first, second, len(text))
			}
			if i == 0 {
				continue
			}
			x := map[string]sessions.Text{"a": a, "b": b}[names[0]]
			if got.State == nil || *got.State != (receipt.State{Hash: x.State, Position: chunk}) || got.Version != 2 {
				t.Fatalf("%s %v: the receipt of version %d names %+v, want %s", d.path, names, got.Version, got.State,
					x.State)
			}
			if i == 1 {
				auditFrom(t, s, got)
				without, read := asked(plain, d.path, body) // without a prompt cache
				if !slices.Equal(without.Chain, want.Chain) || read > len(text)-chunk+64 {
					t.Errorf("%v: without a cache it reads %d tokens of %d, or replies otherwise", names, read,
						len(text))
				}
			}
		}
	}
}

// auditFrom audits a receipt from the state that it names, and from other states.
func auditFrom(t *testing.T, s *servetest.Site, r *receipt.Receipt) {
	t.Helper()
	m := s.Model
	_, _, file := s.Do(http.MethodGet, "/v1/states/"+r.State.Hash, "")
	from, err := session.Decode(file, m.Net, m.Tokenizer, session.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := r.AuditFrom(t.Context(), m.Net, m.Tokenizer, from, r.State.Hash); err != nil || d != nil {
		t.Errorf("from its state: %+v, %v", d, err)
	}
	if d, err := r.Audit(t.Context(), m.Net, m.Tokenizer); err != nil || d != nil {
		t.Errorf("from the start: %+v, %v", d, err)
	}
	if _, err := r.AuditFrom(t.Context(), m.Net, m.Tokenizer, from, "another"); err == nil ||
		!strings.Contains(err.Error(), "which the receipt names") {
		t.Errorf("from another state: %v", err)
	}
	free := *r
	free.State = nil
	read := func(plan ...session.Segment) error {
		x := session.New(m.Net, m.Tokenizer, session.Options{})
		for _, part := range plan {
			if err := x.Append(t.Context(), part.IDs); err != nil {
				t.Fatal(err)
			}
		}
		d, err := free.AuditFrom(t.Context(), m.Net, m.Tokenizer, x, "")
		if d != nil {
			t.Errorf("it differs: %+v", d)
		}
		return err
	}
	ids := r.Prompt[0].IDs
	if err := read(session.Segment{IDs: ids[:chunk]}); err != nil { // any state in the prompt works
		t.Error(err)
	}
	if err := read(session.Segment{IDs: ids}); err != nil { // also at its end
		t.Error(err)
	}
	for want, plan := range map[string][]session.Segment{
		"differs from the prompt at token 1": {{IDs: []int32{ids[0], ids[1] ^ 1}}},
		"in other pieces at token 7":         {{IDs: ids[:7]}, {IDs: ids[7:chunk]}},
		"want one of the":                    {{IDs: append(slices.Clone(ids), 1, 2)}},
	} {
		if err := read(plan...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, want %s", err, want)
		}
	}
	wrong := *r
	wrong.Logits = slices.Clone(r.Logits)
	wrong.Logits[3]++
	d, err := wrong.AuditFrom(t.Context(), m.Net, m.Tokenizer, from, r.State.Hash)
	if err != nil || d == nil || d.At != 3 {
		t.Errorf("a forged logit: %+v, %v", d, err)
	}
}

// libraryOf writes a library of one text that a model has read.
func libraryOf(t *testing.T, m *host.Model, signer *session.Signer) (dir string) {
	t.Helper()
	dir = t.TempDir()
	ids, err := reply.MountIDs(t.Context(), m, handbook)
	if err != nil {
		t.Fatal(err)
	}
	x := session.New(m.Net, m.Tokenizer, session.Options{})
	if err := x.Append(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	if err := x.Save(filepath.Join(dir, "book.session"), session.FileOptions{Signer: signer}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "book.txt"), []byte(handbook), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// libraryAt returns a library in a folder, for the given keys or for all.
func libraryAt(t *testing.T, dir string, keys ...string) sessions.Library {
	t.Helper()
	f, err := session.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	return sessions.Library{Folder: f, Keys: keys}
}

// TestLibraryIsChecked checks that a text of the server whose file has changed, or that another model has read, is
// refused with its own code, and can be mounted again once it is correct.
func TestLibraryIsChecked(t *testing.T) {
	m := servetest.Model(t, "tiny")
	dir := libraryOf(t, m, servetest.Signer)
	s := servetest.SiteOf(t, serve.Options{Libraries: []sessions.Library{libraryAt(t, dir)}}, m)
	const ask = `{"mount":["book"],"messages":[{"role":"user","content":"Who?"}],"max_tokens":1,"receipt":true}`
	file, text := filepath.Join(dir, "book.session"), filepath.Join(dir, "book.txt")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	packed := servetest.Model(t, "tiny")
	if err := packed.Net.Pack(engine.Int8); err != nil {
		t.Fatal(err)
	}
	of := func(m *host.Model, signer *session.Signer) []byte {
		data, err := os.ReadFile(filepath.Join(libraryOf(t, m, signer), "book.session"))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for _, c := range []struct {
		name       string
		file       []byte
		text, code string
	}{
		{"another text", good, "x" + handbook, "text_changed"},
		{"a shorter text", good, handbook[:200], "text_changed"},
		{"a flipped bit", append(slices.Clone(good[:len(good)/2]), append([]byte{good[len(good)/2] ^ 1},
			good[len(good)/2+1:]...)...), handbook, "damaged"},
		{"nothing", nil, handbook, "damaged"},
		{"no signature", of(m, nil), handbook, "unsigned"},
		{"another's signature", of(m, session.NewSigner("")), handbook, "untrusted_key"},
		{"another precision", of(packed, servetest.Signer), handbook, "other_precision"},
		{"another model", of(servetest.Tokenized(t, tokenizer.Bytes(), "").Model, servetest.Signer), handbook,
			"other_model"},
		{"a longer text", good, handbook + appendix, ""},
		{"the text", good, handbook, ""},
	} {
		for path, data := range map[string][]byte{file: c.file, text: []byte(c.text)} {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		status, _, data := s.Do(http.MethodPost, "/v1/chat/completions", ask)
		var e servetest.ErrorAnswer
		switch c.code {
		case "":
			if status != http.StatusOK || !bytes.Contains(data, []byte(`"state":{"hash"`)) {
				t.Errorf("%s: status %d: %s", c.name, status, data)
			}
		default:
			if json.Unmarshal(data, &e) != nil || status != http.StatusConflict || e.Error.Param != "mount" ||
				!bytes.Contains(data, []byte(fmt.Sprintf(`"code":%q`, c.code))) {
				t.Errorf("%s: status %d: %s, want %s", c.name, status, data, c.code)
			}
		}
	}
	for body, want := range map[string]string{
		`{"mount":["none"],"prompt":"a"}`:                                      "text_not_found",
		`{"mount":["../book"],"prompt":"a"}`:                                   "text_not_found",
		`{"mount":[""],"prompt":"a"}`:                                          "text_not_found",
		`{"mount":"book","prompt":"a"}`:                                        "mount",
		`{"mount":[7],"prompt":"a"}`:                                           "mount",
		`{"mount":["book"],"prompt":"a","echo":true}`:                          "echo",
		`{"mount":[` + strings.Repeat(`"book",`, 16) + `"book"],"prompt":"a"}`: "at most 16",
	} {
		if status, _, data := s.Do(http.MethodPost, "/v1/completions", body); status < 400 || status >= 500 ||
			!strings.Contains(string(data), want) {
			t.Errorf("%s: status %d: %s, want %s", body, status, data, want)
		}
	}
	for path, body := range map[string]string{
		"/v1/library/..%2Fa":                      `{"text":"a"}`,
		"/v1/library/" + strings.Repeat("a", 101): `{"text":"a"}`,
		"/v1/library/a":                           `{"text":"too short"}`,
		"/v1/library/b":                           `{"text":7}`,
	} {
		if status, _, data := s.Do(http.MethodPut, path, body); status != http.StatusBadRequest {
			t.Errorf("%s %s: status %d: %s", path, body, status, data)
		}
	}
}

// TestTextsBelongToKeys checks that a text of one key, or of the server for one key, looks to another key like a text
// that does not exist: in answers, in lists, and in the cache.
func TestTextsBelongToKeys(t *testing.T) {
	b := newBank(t, serve.Options{MaxSessions: 2})
	private := libraryOf(t, b.Model, servetest.Signer)
	b.o.Libraries = []sessions.Library{libraryAt(t, private, "alice")}
	b.open()
	const chat = `{"mount":["%s"],"messages":[{"role":"user","content":"Who?"}],"max_tokens":1}`
	b.Key = b.alice
	secret := keepText(b.Site, "secret", systemPrompt+secretCode)
	for _, name := range []string{"secret", "book"} {
		if status, _, data := b.Do(http.MethodPost, "/v1/chat/completions", fmt.Sprintf(chat, name)); status != 200 {
			t.Fatalf("%s: status %d: %s", name, status, data)
		}
	}
	b.Key = b.mallory
	for _, name := range []string{"secret", "book"} {
		for _, c := range []struct{ method, path, body string }{
			{http.MethodPost, "/v1/chat/completions", chat}, {http.MethodDelete, "/v1/library/%s", ""},
			{http.MethodPost, "/v1/completions", `{"mount":["%s"],"prompt":"a"}`},
			{http.MethodPost, "/v1/responses", `{"mount":["%s"],"input":"a"}`},
			{http.MethodPost, "/v1/messages/count_tokens",
				`{"mount":["%s"],"model":"tiny","messages":[{"role":"user","content":"a"}]}`},
		} {
			fill := func(text, name string) string { return strings.ReplaceAll(text, "%s", name) }
			ask := func(name string) string {
				status, _, data := b.Do(c.method, fill(c.path, name), fill(c.body, name))
				said, _, _ := strings.Cut(string(data), `"request_id"`)
				return fmt.Sprint(status, strings.ReplaceAll(said, name, "NAME"))
			}
			if got, want := ask(name), ask("nobodys"); got != want || !strings.HasPrefix(got, "404") {
				t.Errorf("%s %s: got %s, want %s", c.method, c.path, got, want)
			}
		}
	}
	if _, _, data := b.Do(http.MethodGet, "/v1/library", ""); !strings.Contains(string(data), `"data":[]`) {
		t.Errorf("mallory sees %s", data)
	}
	if status, _, _ := b.Do(http.MethodGet, "/v1/states/"+secret.State, ""); status != http.StatusNotFound {
		t.Errorf("alice's state: status %d", status)
	}
	none := newBank(t, serve.Options{})
	e := textEndpoints["completions"]
	if got, want := b.guessed(e[0], e[1]), none.guessed(e[0], e[1]); !slices.Equal(got, want) {
		t.Errorf("mallory sees %q of the cache, want what it sees of nothing, %q", got, want)
	}
	keepText(b.Site, "secret", handbook) // her own
	b.Key = b.alice
	status, _, data := b.Do(http.MethodGet, "/v1/library", "")
	list := servetest.Decode[struct{ Data []sessions.Text }](t, data)
	if status != 200 || len(list.Data) != 2 || list.Data[0] != secret || list.Data[1].ID != "book" ||
		list.Data[1].Owner != "server" || list.Data[1].Tokens != chunk {
		t.Errorf("alice sees %s", data)
	}
	keepText(b.Site, "other", handbook)
	status, _, data = b.Do(http.MethodPut, "/v1/library/third", fmt.Sprintf(`{"text":%q}`, handbook))
	if status != 403 || !strings.Contains(string(data), "library_limit") {
		t.Errorf("a third text: status %d: %s", status, data)
	}
	states := func() int {
		_, _, data := b.Do(http.MethodGet, "/v1/states", "")
		return len(servetest.Decode[struct{ Data []sessions.State }](t, data).Data)
	}
	keepText(b.Site, "other", appendix) // the state of the replaced text is removed
	if n := states(); n != 2 {
		t.Errorf("found %d states, want those of two texts", n)
	}
	for _, want := range []int{200, 404} {
		if status, _, data := b.Do(http.MethodDelete, "/v1/library/other", ""); status != want {
			t.Errorf("deleting: status %d: %s", status, data)
		}
	}
	if n := states(); n != 1 {
		t.Errorf("found %d states after a text was deleted, want 1", n)
	}
	b.Do(http.MethodDelete, "/v1/states/"+secret.State, "") // then the text is read again
	b.restart()
	b.Key = b.alice
	if status, _, data := b.Do(http.MethodPost, "/v1/chat/completions", fmt.Sprintf(chat, "secret")); status != 200 {
		t.Errorf("without its state: status %d: %s", status, data)
	}
}
