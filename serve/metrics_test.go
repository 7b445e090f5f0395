package serve_test

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/openai"
)

// TestMetrics checks that requests, tokens, texts and times are counted by known routes and model names, and that
// clients cannot create labels.
func TestMetrics(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{Version: "v1"})
	before := servetest.Figures(t, s.Hippo.Admin())
	for range 2 {
		servetest.Post[openai.Completion](s, "/v1/completions",
			`{"prompt":"Call me","max_tokens":3,"ignore_eos":true,"n":2}`)
	}
	s.Do(http.MethodPost, "/v1/completions", `{"prompt":"a","model":"evil-name"}`)
	s.Do(http.MethodGet, "/evil-path", "")
	s.Do("EVIL", "/v1/completions", "")
	servetest.WaitUntil(t, func() bool {
		return servetest.Figures(t, s.Hippo.Admin())[`hippo_requests_total{route="other",status="405"}`] == 1
	})
	after := servetest.Figures(t, s.Hippo.Admin())
	for name, want := range map[string]float64{
		`hippo_requests_total{route="POST /v1/completions",status="200"}`: 2,
		`hippo_requests_total{route="POST /v1/completions",status="404"}`: 1,
		`hippo_requests_total{route="other",status="404"}`:                1,
		`hippo_request_seconds_count{route="POST /v1/completions"}`:       3,
		`hippo_tokens_total{kind="read",model="tiny"}`:                    7,
		`hippo_tokens_total{kind="cached",model="tiny"}`:                  7,
		`hippo_tokens_total{kind="written",model="tiny"}`:                 12,
		`hippo_first_token_seconds_count{model="tiny"}`:                   2,
		`hippo_queue_seconds_count`:                                       2,
		`hippo_texts_total{found="nothing",model="tiny"}`:                 1,
		`hippo_texts_total{found="whole",model="tiny"}`:                   1,
		`hippo_text_tokens_found_total{model="tiny"}`:                     7,
		`hippo_next_token_seconds_count{model="tiny"}`:                    8,
		`hippo_requests_running`:                                          0,
		`hippo_requests_waiting`:                                          0,
		`hippo_models_loaded`:                                             1,
		`hippo_limited_total{limit="queue"}`:                              0,
		`hippo_build_info{go="` + runtime.Version() + `",version="v1"}`:   1,
	} {
		if after[name] != want {
			t.Errorf("%s is %v, want %v", name, after[name], want)
		}
	}
	for _, name := range []string{
		`hippo_stored_bytes{model="tiny",where="memory"}`, "go_goroutines", "process_resident_memory_bytes",
		`hippo_batch_sequences_count{model="tiny"}`,
	} {
		if after[name] <= 0 {
			t.Errorf("%s is %v, want more", name, after[name])
		}
	}
	for name := range after {
		if strings.Contains(name, "evil") || strings.Contains(name, "EVIL") {
			t.Errorf("a client has made the label of %s", name)
		}
	}
	if len(before) == 0 || len(after) > 600 {
		t.Errorf("there are %d and %d figures", len(before), len(after))
	}
}

// TestFiguresOfClients checks that requests and tokens are counted by the names of keys, and not for unknown keys.
func TestFiguresOfClients(t *testing.T) {
	alice, secret := serve.NewKey("alice", serve.ScopeAll)
	s := servetest.NewSite(t, serve.Options{Keys: []serve.Key{alice}})
	s.Key = "hippo-wrong"
	s.Do(http.MethodGet, "/v1/models", "")
	s.Key = secret
	servetest.Post[openai.Completion](s, "/v1/completions", `{"prompt":"Call me","max_tokens":3,"ignore_eos":true}`)
	s.Do(http.MethodPost, "/v1/completions", `{"prompt":7}`)
	servetest.WaitUntil(t, func() bool {
		return servetest.Figures(t, s.Hippo.Admin())[`hippo_client_requests_total{client="alice",status="400"}`] == 1
	})
	all := servetest.Figures(t, s.Hippo.Admin())
	for name, want := range map[string]float64{
		`hippo_client_requests_total{client="alice",status="200"}`:   1,
		`hippo_client_tokens_total{client="alice",kind="read"}`:      7,
		`hippo_client_tokens_total{client="alice",kind="written"}`:   3,
		`hippo_tokens_total{kind="written",model="tiny"}`:            3,
		`hippo_requests_total{route="GET /v1/models",status="401"}`:  1,
		`hippo_client_requests_total{client="hippo-w",status="401"}`: 0,
	} {
		if all[name] != want {
			t.Errorf("%s is %v, want %v", name, all[name], want)
		}
	}
}

// histogram matches the suffixes of a histogram's metrics.
var histogram = regexp.MustCompile(`_(bucket|sum|count)$`)

// TestDashboard checks that every query of the dashboard uses existing metrics.
func TestDashboard(t *testing.T) {
	data, err := os.ReadFile("../dist/grafana-hippo.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	s := servetest.NewSite(t, serve.Options{})
	servetest.Post[openai.Completion](s, "/v1/completions", servetest.Short)
	servetest.WaitUntil(t, func() bool { // requests are counted after their responses
		return servetest.Figures(t,
			s.Hippo.Admin())[`hippo_requests_total{route="POST /v1/completions",status="200"}`] == 1
	})
	known := map[string]bool{}
	for name := range servetest.Figures(t, s.Hippo.Admin()) {
		name, _, _ = strings.Cut(name, "{")
		known[name] = true
	}
	name, queries, used := regexp.MustCompile(`\b(?:hippo|go|process)_[a-z_]+`), 0, map[string]bool{}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			queries++
			found := name.FindAllString(target.Expr, -1)
			if len(found) == 0 {
				t.Errorf("%s: the query %s names no figure", p.Title, target.Expr)
			}
			for _, n := range found {
				if used[histogram.ReplaceAllString(n, "")] = true; !known[n] {
					t.Errorf("%s: there is no figure %s", p.Title, n)
				}
			}
		}
	}
	if queries < 10 {
		t.Errorf("the dashboard has %d queries", queries)
	}
	for n := range known {
		if strings.HasPrefix(n, "hippo_") && !used[histogram.ReplaceAllString(n, "")] {
			t.Errorf("the dashboard does not show %s", n)
		}
	}
}
