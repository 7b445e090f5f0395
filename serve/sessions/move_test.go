package sessions_test

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/sessions"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// grown returns a session of n ids, created from a short one by repeating its keys and values.
func grown(t *testing.T, m *model.Model, n int) *session.Session {
	t.Helper()
	ids := toymodel.Text(1, n, 256)
	b := generate.NewBatch(m, 1)
	if err := b.Feed(t.Context(), ids[:64]); err != nil {
		t.Fatal(err)
	}
	from := session.Take(b)
	to := &session.Snapshot{Position: n, State: m.NewState(), Logits: from.Logits}
	from.State.Parts(func(p model.StatePart) {
		if p.Integers == nil {
			if err := to.State.Restore(p.Name, []int{2}, []float32{0, float32(n)}); err != nil {
				t.Fatal(err)
			}
			return
		}
		var q []int8
		var factors []float32
		for some, f := range p.Integers.Rows() {
			q, factors = append(q, repeated(some, n/64)...), append(factors, repeated(f, n/64)...)
		}
		shape := []int{p.Integers.Shape[0], n, p.Integers.Shape[2]}
		if done, err := to.State.RestoreIntegers(p.Name, shape, q, factors); !done || err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
	})
	x, err := session.From(m, tokenizer.Bytes(), session.Options{}, session.Text{
		Plan: []session.Segment{{IDs: ids}}, At: to,
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// repeated returns x repeated a number of times.
func repeated[T any](x []T, times int) (all []T) {
	for range times {
		all = append(all, x...)
	}
	return all
}

// TestMovesCopyOnce checks that writing the file of a large state, and receiving it, allocates little more than the
// file, and beginning a session from it little more than the file and the state, and that this session equals the
// original.
func TestMovesCopyOnce(t *testing.T) {
	net := toymodel.New(t, "attention", 256)
	if err := net.Pack(engine.Int8); err != nil {
		t.Fatal(err)
	}
	m := host.NewModel(host.ModelOptions{Name: "tiny", Net: net, Tokenizer: tokenizer.Bytes(),
		Runner: session.Direct{}})
	from, to := servetest.SiteOf(t, serve.Options{}, m), servetest.SiteOf(t, serve.Options{}, m)
	var file bytes.Buffer
	if err := grown(t, net, 1<<16).Encode(&file, session.FileOptions{Signer: servetest.Signer}); err != nil {
		t.Fatal(err)
	}
	status, _, data := from.Send(http.MethodPost, "/v1/sessions/import", "", &file)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, data)
	}
	x := servetest.Decode[sessions.Session](t, data)
	taken := func() float64 {
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		return float64(now.TotalAlloc)
	}
	before, size := taken(), 0.0
	step := func(what string, most float64) {
		now := taken()
		if size == 0 || now-before > most*size {
			t.Errorf("%s of %.0f bytes takes %.2f of them, want at most %v", what, size, (now-before)/size, most)
		}
		before = taken()
	}
	a := servetest.Post[sessions.State](from, "/v1/states", fmt.Sprintf(`{"session":%q}`, x.ID))
	size = float64(a.Bytes)
	step("a file", 1.3)
	_, _, content := from.Do(http.MethodGet, "/v1/states/"+a.ID, "")
	sent := string(content)
	before = taken()
	if status, _, data := to.Do(http.MethodPut, "/v1/states/"+a.ID, sent); status != http.StatusOK {
		t.Fatalf("status %d: %s", status, data)
	}
	step("receiving", 1.3)
	y := servetest.Post[sessions.Session](to, "/v1/sessions", fmt.Sprintf(`{"state":%q}`, a.ID))
	step("opening", 2)
	want := servetest.Post[sessions.Reply](from, "/v1/sessions/"+x.ID+"/generate", goOn)
	got := servetest.Post[sessions.Reply](to, "/v1/sessions/"+y.ID+"/generate", goOn)
	if servetest.Quoted(t, got.Logprobs) != servetest.Quoted(t, want.Logprobs) {
		t.Errorf("got %v, want %v", got.Logprobs, want.Logprobs)
	}
}
