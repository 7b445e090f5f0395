package views

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/sessions"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

const vocab = 256

// viewed returns the input of a view of a text that a model has read as a session.
func viewed(t *testing.T, m *model.Model, ids []int32, v sessions.View) *sessions.Viewed {
	t.Helper()
	x := session.New(m, tokenizer.Bytes(), session.Options{})
	if err := x.Append(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	before := max(0, len(ids)-v.Tokens[0])
	o := map[string]string{}
	for _, option := range v.Options {
		o[option.Name] = option.Values[0]
	}
	out := &sessions.Viewed{
		Model: m, Tokenizer: tokenizer.Bytes(), Name: "toy", ID: "sess_FIRSTONE", IDs: ids[before:],
		LogProbs: x.LogProbs()[before:], Before: before, State: x.Snapshot(), Options: o,
	}
	if v.Pair { // with a different second half
		out.Other = &sessions.Paired{ID: "sess_ANOTHER", Position: len(ids), IDs: slices.Clone(out.IDs)}
		for i := range out.Other.IDs[len(out.IDs)/2:] {
			out.Other.IDs[len(out.IDs)/2+i] ^= 1
		}
	}
	return out
}

// TestViewsOfEveryMixer checks that each view, with each of its options, works for each mixer that a session can have.
func TestViewsOfEveryMixer(t *testing.T) {
	ids := toymodel.Text(1, 12, vocab)
	layers := []string{"zamba2-shared(num_heads=2)>mamba2(d_state=8,headdim=8),h3"}
	for _, info := range model.Mixers() {
		layers = append(layers, info.Name+",attention")
	}
	for _, of := range layers {
		m := toymodel.New(t, of, vocab)
		for _, v := range All() {
			x := viewed(t, m, ids, v)
			show := func() {
				t.Helper()
				page, err := v.Show(t.Context(), x)
				if err == nil {
					err = page.Check()
				}
				if err != nil {
					t.Errorf("%s: %s with %v: %v", of, v.Name, x.Options, err)
				} else if page.Title == "" || !strings.HasPrefix(page.Subtitle, "toy · ") ||
					!strings.Contains(page.Subtitle, "12 tokens") {
					t.Errorf("%s: %s: found the title %q, %q", of, v.Name, page.Title, page.Subtitle)
				}
			}
			show()
			for _, o := range v.Options {
				if o.Ahead < 1 || o.Ahead > len(o.Values) {
					t.Errorf("%s: %s: found %d values to ask for ahead of %d", v.Name, o.Name, o.Ahead, len(o.Values))
				}
				for _, value := range o.Values[1:] {
					x.Options[o.Name] = value
					show()
				}
			}
		}
	}
}

// TestViewsOfLongSessions checks that the page says what it leaves out of a long session, and does not grow with it.
func TestViewsOfLongSessions(t *testing.T) {
	m := toymodel.New(t, "h3,mamba", vocab)
	for _, v := range All() {
		most := slices.Max(v.Tokens)
		v.Tokens = []int{min(most, 256)}
		var sizes []int
		for _, n := range []int{300, 3000} {
			x := viewed(t, m, toymodel.Text(1, n, vocab), v)
			page, err := v.Show(t.Context(), x)
			if err != nil {
				t.Fatalf("%s: %v", v.Name, err)
			}
			want := fmt.Sprintf("The session has %d tokens, of which these are the last %d,", n, v.Tokens[0])
			if v.Pair {
				want = fmt.Sprintf("Tokens are counted from 0 at token %d of the sessions.", n-v.Tokens[0])
			}
			if !slices.ContainsFunc(page.Notes, func(note string) bool { return strings.HasPrefix(note, want) }) {
				t.Errorf("%s: found the notes %q, want %q", v.Name, page.Notes, want)
			}
			data, err := json.Marshal(page)
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, len(data))
		}
		if sizes[1] > sizes[0]*3/2 {
			t.Errorf("%s: found pages of %d bytes, want as many for a long session", v.Name, sizes)
		}
	}
}

// TestWhatViewsCannotShow checks that a text that is too short, and NaN weights, give errors that say so, while the
// view of the state always works.
func TestWhatViewsCannotShow(t *testing.T) {
	for _, n := range []int{0, 1} {
		for _, v := range All() {
			x := viewed(t, toymodel.New(t, "h3,attention", vocab), toymodel.Text(1, n, vocab), v)
			page, err := v.Show(t.Context(), x)
			if err == nil {
				err = page.Check()
			}
			fails := v.Name == "memory" || v.Name == "surprise" || n == 0 && v.Name != "state"
			if (err != nil) != fails {
				t.Errorf("%s of %d tokens: found the error %v", v.Name, n, err)
			}
		}
	}
	for _, of := range []string{"h3,mamba", "attention,attention"} {
		m, ids := toymodel.New(t, of, vocab), toymodel.Text(1, 12, vocab)
		for _, v := range All() {
			x := viewed(t, m, ids, v)
			m.Blocks[0].Mixer.Params("", spoil)
			page, err := v.Show(t.Context(), x)
			if err == nil {
				err = page.Check()
			}
			if v.Name == "state" && err != nil || v.Name != "state" && (err == nil ||
				!strings.Contains(err.Error(), "finite") && !strings.Contains(err.Error(), "ruined")) {
				t.Errorf("%s: %s: found the error %v", of, v.Name, err)
			}
			m = toymodel.New(t, of, vocab)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, v := range All()[1:] {
		x := viewed(t, toymodel.New(t, "h3,attention", vocab), toymodel.Text(1, 12, vocab), v)
		if _, err := v.Show(ctx, x); err == nil {
			t.Errorf("%s: found no error though its client has gone", v.Name)
		}
	}
}

// spoil sets an element of a parameter to NaN.
func spoil(_ string, p *nn.Param) {
	x := make([]float32, p.Len())
	p.CopyTo(x)
	x[0] = float32(math.NaN())
	p.CopyFrom(x)
	p.Changed()
}

// TestViewsBesideTokens checks that while views of all kinds are computed, several clients' replies do not change, and
// that a session that is extended meanwhile is shown as it is at some moment.
func TestViewsBesideTokens(t *testing.T) {
	m := toymodel.New(t, "h3,attention,mamba", vocab)
	runner := session.NewScheduler(m, session.SchedulerOptions{})
	t.Cleanup(runner.Close)
	s, err := serve.New(serve.Options{Views: All()},
		host.NewModel(host.ModelOptions{Name: "toy", Net: m, Tokenizer: tokenizer.Bytes(), Runner: runner}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	site := httptest.NewServer(s)
	t.Cleanup(site.Close)
	do := func(method, path, body string, into any) {
		r, err := http.NewRequestWithContext(t.Context(), method, site.URL+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		answer, err := site.Client().Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		defer answer.Body.Close()
		data, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK || json.Unmarshal(data, into) != nil {
			t.Errorf("%s %s: status %d: %.300s (%v)", method, path, answer.StatusCode, data, err)
		}
	}
	const clients, rounds = 3, 6
	write := func(i int, path string) (text string) {
		for range rounds {
			var reply struct{ Text string }
			do(http.MethodPost, path+"/generate", fmt.Sprintf(`{"max_tokens":4,"seed":%d}`, i), &reply)
			text += reply.Text
		}
		return text
	}
	begin := func(i int) string {
		var made struct{ ID string }
		do(http.MethodPost, "/v1/sessions", fmt.Sprintf(`{"text":"Call me %d"}`, i), &made)
		return "/v1/sessions/" + made.ID
	}
	var alone [clients]string
	for i := range clients {
		alone[i] = write(i, begin(i))
	}
	var all sync.WaitGroup
	for i := range clients {
		path := begin(i)
		all.Go(func() {
			if text := write(i, path); text != alone[i] {
				t.Errorf("client %d: found the text %q beside views, want %q", i, text, alone[i])
			}
		})
		all.Go(func() {
			var fork struct{ ID string }
			// two of them, since views of two sessions need one that diverges
			for _, text := range []string{"and", "or"} {
				do(http.MethodPost, path+"/fork", `{}`, &fork)
				do(http.MethodPost, "/v1/sessions/"+fork.ID+"/append", `{"text":"`+text+`"}`, &struct{}{})
			}
			for _, v := range All() {
				path := path
				if v.Pair {
					path = "/v1/sessions/" + fork.ID
				}
				var got struct {
					Position int
					Head     figure.Head
				}
				do(http.MethodGet, path+"/explain?view="+v.Name, "", &got)
				if got.Position < 9 || len(got.Head.Figures) == 0 {
					t.Errorf("%s: found the position %d and %d figures", v.Name, got.Position, len(got.Head.Figures))
				}
			}
		})
	}
	all.Wait()
}
