package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/receipt"
)

// withReceipts is a response of any dialect, or an event of a stream.
type withReceipts struct {
	Receipt  json.RawMessage
	Choices  []struct{ Receipt json.RawMessage }
	Response *withReceipts
}

// receiptsIn returns the receipts of a response, or of a stream of events.
func receiptsIn(t testing.TB, data []byte) (all []json.RawMessage) {
	t.Helper()
	for line := range strings.Lines(string(data)) {
		line, events := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if line == "[DONE]" || !strings.HasPrefix(line, "{") {
			continue
		}
		x := servetest.Decode[withReceipts](t, []byte(line))
		if x.Response != nil && events {
			x = *x.Response
		}
		if x.Receipt != nil {
			all = append(all, x.Receipt)
		}
		for _, c := range x.Choices {
			if c.Receipt != nil {
				all = append(all, c.Receipt)
			}
		}
	}
	return all
}

// TestReceipts checks that replies of all dialects, whole and in streams, generated concurrently, have receipts on
// request, and that each is verified when the reply is computed again, alone.
func TestReceipts(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{Version: "v7"})
	text := strings.Repeat("The whale swims. ", 20) // longer than a chunk, and cached for the later requests
	say := fmt.Sprintf(`[{"role":"user","content":%q}]`, text)
	var all sync.WaitGroup
	const hash, bound = 1, 2 // special properties of a receipt
	for _, c := range []struct {
		path, body string
		n, special int
	}{
		{"completions", fmt.Sprintf(`{"prompt":[%q,"Call me"],"n":2,"seed":3,"frequency_penalty":0.5,"temperature":2,
			"logit_bias":{"65":1.5},"stop":["zz"],"max_tokens":30,"receipt":true}`, text), 4, 0},
		{"completions", fmt.Sprintf(`{"prompt":%q,"max_tokens":20,"echo":true,"logprobs":2,
			"receipt":"ids"}`, text), 1, 0},
		{"completions", `{"prompt":"Call me","stream":true,"min_tokens":3,"stop_token_ids":[101],
			"receipt":"hash"}`, 1, hash},
		{"completions", `{"prompt":"Call me","guided_regex":"[a-f]{9}","receipt":true}`, 1, bound},
		{"completions", `{"prompt":"Call me","dry_multiplier":2,"dry_allowed_length":1,"repeat_penalty":1.5,
			"repeat_last_n":4,"allowed_token_ids":[97,98,99,100],"max_tokens":30,"receipt":true}`, 1, 0},
		{"completions", `{"prompt":"Call me","bad_words":["a","b"],"max_tokens":20,"receipt":true}`, 1, bound},
		{"completions", `{"prompt":"Call me","allowed_token_ids":[97,98],"stop":["b"],"include_stop_str_in_output":true,
			"max_tokens":30,"receipt":true}`, 1, 0},
		{"chat/completions", `{"messages":` + say + `,"max_tokens":20,"receipt":true}`, 1, 0},
		{"chat/completions", `{"messages":` + say + `,"max_tokens":9,"n":2,"stream":true,"receipt":true}`, 2, 0},
		{"messages", `{"model":"tiny","messages":` + say + `,"max_tokens":20,"receipt":true}`, 1, 0},
		{"messages", `{"model":"tiny","messages":` + say + `,"max_tokens":9,"stream":true,"receipt":true}`, 1, 0},
		{"responses", fmt.Sprintf(`{"input":%q,"max_output_tokens":20,"receipt":true}`, text), 1, 0},
		{"responses", `{"input":"a","max_output_tokens":9,"stream":true,"receipt":true}`, 1, 0},
		{"completions", `{"prompt":"Call me","max_tokens":4,"receipt":false}`, 0, 0},
		{"completions", `{"prompt":"Call me","max_tokens":0,"receipt":true}`, 0, 0},
	} {
		all.Go(func() {
			status, _, data := s.Do(http.MethodPost, "/v1/"+c.path, c.body)
			found := receiptsIn(t, data)
			if status != 200 || len(found) != c.n {
				t.Errorf("%s %s: status %d, %d receipts in %s, want %d", c.path, c.body, status, len(found), data, c.n)
			}
			for _, one := range found {
				r, by, err := receipt.Read(one)
				if err != nil {
					t.Errorf("%s: %v", c.path, err)
					continue
				}
				if own, _ := servetest.Signer.Public(); by != own || r.Program != "v7" || r.Model != "tiny" ||
					r.Settings.Constrained != (c.special == bound) || r.Has() == (c.special == hash) ||
					r.Template == "" {
					t.Errorf("%s: got %s", c.path, one)
				}
				if c.special == hash {
					if _, err := r.Audit(t.Context(), s.Model.Net, s.Model.Tokenizer); err != receipt.ErrPrompt {
						t.Errorf("without a prompt: %v", err)
					}
					if err := r.SetPrompt(servetest.BytesOf("Call mi")); err == nil {
						t.Error("another prompt is taken")
					}
					if err := r.SetPrompt(servetest.BytesOf("Call me")); err != nil {
						t.Error(err)
					}
				}
				if err := r.Fits(s.Model.Net, s.Model.Tokenizer); err != nil {
					t.Error(err)
				}
				d, err := r.Audit(t.Context(), s.Model.Net, s.Model.Tokenizer)
				if err != nil || d != nil {
					t.Errorf("%s %s: %+v, %v", c.path, c.body, d, err)
				}
			}
		})
	}
	all.Wait()
	// A response that continues another one is read in other segments.
	a := servetest.Post[struct{ ID string }](s, "/v1/responses", `{"input":"Call me","max_output_tokens":9}`)
	_, _, data := s.Do(http.MethodPost, "/v1/responses",
		fmt.Sprintf(`{"previous_response_id":%q,"input":"And?","max_output_tokens":9,"receipt":true}`, a.ID))
	r, _, err := receipt.Read(receiptsIn(t, data)[0])
	if err != nil || len(r.Prompt) < 3 || !r.Prompt[1].Drawn {
		t.Fatalf("got %+v, %v", r, err)
	}
	if d, err := r.Audit(t.Context(), s.Model.Net, s.Model.Tokenizer); err != nil || d != nil {
		t.Errorf("%+v, %v", d, err)
	}
	for _, kind := range []string{`7`, `"text"`, `[]`, `{"a":1}`} {
		status, _, data := s.Do(http.MethodPost, "/v1/completions", `{"prompt":"a","receipt":`+kind+`}`)
		if status != 400 || !strings.Contains(string(data), `"param":"receipt"`) {
			t.Errorf("%s: status %d: %s", kind, status, data)
		}
	}
	status, _, data := s.Do(http.MethodPost, "/v1/completions",
		fmt.Sprintf(`{"prompt":%q,"n":128,"receipt":true}`, strings.Repeat("a", 9000)))
	if status != 400 || !strings.Contains(string(data), `\"hash\"`) {
		t.Errorf("too many ids: status %d: %.300s", status, data)
	}
}

// TestForgedReceipts checks that a changed receipt is detected by its signature, one that is signed again by the first
// token that differs, and so is a flipped weight. Other weights and another level are named.
func TestForgedReceipts(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	_, _, data := s.Do(http.MethodPost, "/v1/completions",
		`{"prompt":"Call me","max_tokens":12,"temperature":1,"seed":5,"receipt":true,"ignore_eos":true}`)
	honest := receiptsIn(t, data)[0]
	audit := func(data []byte) *receipt.Difference {
		t.Helper()
		r, _, err := receipt.Read(data)
		if err != nil {
			t.Fatal(err)
		}
		d, err := r.Audit(t.Context(), s.Model.Net, s.Model.Tokenizer)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := audit(honest); d != nil {
		t.Fatalf("got %+v", d)
	}
	for _, c := range []struct {
		name   string
		change func(r *receipt.Receipt)
		at     int // index of the token that differs if it is signed again
	}{
		{"ids", func(r *receipt.Receipt) { r.IDs[4]++ }, 4},
		{"a logit", func(r *receipt.Receipt) { r.Logits[7] += 1e-6 }, 7},
		{"a link", func(r *receipt.Receipt) { r.Chain[2] = r.Chain[3] }, 2},
		{"the prompt", func(r *receipt.Receipt) { r.Prompt[0].IDs[1]++ }, -1},
		{"the seed", func(r *receipt.Receipt) { r.Settings.Seed++ }, 0},
		{"a shorter reply", func(r *receipt.Receipt) {
			r.IDs, r.Logits, r.Chain = r.IDs[:5], r.Logits[:5], r.Chain[:5]
		}, 4},
		{"the reason of the end", func(r *receipt.Receipt) { r.End = "stop" }, 11},
		{"the model", func(r *receipt.Receipt) { r.Identity.Model = "0" }, -2},
		{"the level", func(r *receipt.Receipt) { r.CPU = "avx9" }, -2},
		{"no signature", func(r *receipt.Receipt) { r.Signature = "" }, -2},
		{"the signer", func(r *receipt.Receipt) { r.Signer = (session.PublicKey{}).String() }, -2},
	} {
		r := servetest.Decode[receipt.Receipt](t, honest)
		c.change(&r)
		forged, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := receipt.Read(forged); err == nil {
			t.Errorf("%s: a change is not found", c.name)
		}
		if c.at == -2 {
			continue
		}
		again, err := r.Sign(session.NewSigner(""))
		if err != nil {
			t.Fatal(err)
		}
		read, _, err := receipt.Read(again)
		if err != nil {
			t.Fatal(c.name, err)
		}
		d, err := read.Audit(t.Context(), s.Model.Net, s.Model.Tokenizer)
		if (err != nil) != (c.at == -1) || c.at >= 0 && (d == nil || d.At != c.at) {
			t.Errorf("%s: got %+v, %v, want a difference at %d", c.name, d, err, c.at)
		}
	}
	r, _, err := receipt.Read(honest)
	if err != nil {
		t.Fatal(err)
	}
	level := *r
	level.CPU = "avx9"
	err = level.Fits(s.Model.Net, s.Model.Tokenizer)
	if err == nil || !strings.Contains(err.Error(), "HIPPO_CPU=avx9") {
		t.Errorf("another level: %v", err)
	}
	flipped := false
	s.Model.Net.Params("", func(_ string, p *nn.Param) {
		x := make([]float32, p.Len())
		if p.CopyTo(x); !flipped && len(x) > 40 {
			x[40], flipped = x[40]+1e-3, true
			p.CopyFrom(x)
		}
	})
	if err := r.Fits(s.Model.Net, s.Model.Tokenizer); err == nil || !strings.Contains(err.Error(), "another model") {
		t.Errorf("other weights: %v", err)
	}
	if d := audit(honest); d == nil || d.Receipt == d.Computed {
		t.Errorf("one flipped weight: got %+v", d)
	}
	for _, text := range []string{``, `null`, `{}`, `[]`, `{"object":"hippo.receipt","version":1}`,
		strings.Replace(string(honest), `"version":1`, `"version":2`, 1),
		strings.Replace(string(honest), `{`, `{"x":1,`, 1)} {
		if _, _, err := receipt.Read([]byte(text)); err == nil {
			t.Errorf("%s is a receipt", text)
		}
	}
}
