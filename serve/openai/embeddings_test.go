package openai_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/session"
)

type embeddingList[E any] struct {
	Object string
	Model  string
	Data   []struct {
		Object    string
		Index     int
		Embedding E
	}
	Usage struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	}
}

// meanHidden computes the embedding of a text by its formula, from the model's hidden states for the whole text.
func meanHidden(m *host.Model, text string) []float64 {
	ids := make([]int32, len(text))
	for i := range ids {
		ids[i] = int32(text[i])
	}
	hidden := m.Net.Forward(autograd.NewTape(cpu.Backend{}), ids, model.OneRow(len(ids), m.Net.NewState()))
	d := m.Net.Config.DModel
	x, out, square := make([]float32, len(ids)*d), make([]float64, d), 0.0
	hidden.CopyTo(x)
	for i, v := range x {
		out[i%d] += float64(v)
	}
	for _, v := range out {
		square += v * v
	}
	for i := range out {
		out[i] /= math.Sqrt(square)
	}
	return out
}

func near(got []float32, want []float64) bool {
	return slices.EqualFunc(got, want, func(a float32, b float64) bool { return math.Abs(float64(a)-b) < 1e-5 })
}

// TestEmbeddings checks that texts and ids have the embeddings of the formula, as numbers and in base64, in the order
// of the request, truncated to the requested dimensions.
func TestEmbeddings(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	texts := []string{"Call me Ishmael.", "海は広い", strings.Repeat("The sea. ", 300)}
	a := servetest.Post[embeddingList[[]float32]](s, "/v1/embeddings",
		`{"model":"tiny","input":`+servetest.Quoted(t, texts)+`}`)
	if a.Object != "list" || a.Model != "tiny" || len(a.Data) != 3 ||
		a.Usage.Prompt != len(strings.Join(texts, "")) || a.Usage.Total != a.Usage.Prompt {
		t.Fatalf("got %+v", a)
	}
	for i, text := range texts {
		if e := a.Data[i]; e.Object != "embedding" || e.Index != i || !near(e.Embedding, meanHidden(s.Model, text)) {
			t.Errorf("text %d: got %+v", i, e)
		}
	}
	b := servetest.Post[embeddingList[string]](s, "/v1/embeddings",
		`{"input":[[67,97,108,108],[83]],"encoding_format":"base64","dimensions":3}`)
	c := servetest.Post[embeddingList[[]float32]](s, "/v1/embeddings", `{"input":"Call","dimensions":3}`)
	data, err := base64.StdEncoding.DecodeString(b.Data[0].Embedding)
	if err != nil || len(b.Data) != 2 || len(data) != 12 || len(c.Data[0].Embedding) != 3 || b.Usage.Total != 5 {
		t.Fatalf("got %+v, %+v (%v)", b, c, err)
	}
	length := 0.0
	for i, want := range c.Data[0].Embedding {
		length += float64(want) * float64(want)
		if got := math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])); got != want {
			t.Errorf("number %d is %v as base64, and %v", i, got, want)
		}
	}
	if math.Abs(length-1) > 1e-6 {
		t.Errorf("the square of the length is %v, want 1", length)
	}
}

// TestOllamaEmbeddings checks that Ollama's two endpoints return the same embeddings, and none without a text.
func TestOllamaEmbeddings(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	type answer struct {
		Model      string
		Embeddings [][]float32
		Embedding  []float32
		Total      int64 `json:"total_duration"`
		Count      int   `json:"prompt_eval_count"`
	}
	want := meanHidden(s.Model, "Call me")
	a := servetest.Post[answer](s, "/api/embed", `{"model":"tiny:latest","input":["Call me","x"],"truncate":true}`)
	if len(a.Embeddings) != 2 || !near(a.Embeddings[0], want) || a.Count != 8 || a.Total <= 0 ||
		a.Model != "tiny:latest" {
		t.Errorf("got %+v", a)
	}
	if a = servetest.Post[answer](s, "/api/embeddings", `{"model":"tiny","prompt":"Call me"}`); !near(a.Embedding,
		want) {
		t.Errorf("got %+v", a)
	}
	for _, body := range []string{`{"model":"tiny"}`, `{"model":"tiny","input":""}`, `{"model":"tiny","input":[]}`} {
		if _, _, data := s.Do(http.MethodPost, "/api/embed", body); !strings.Contains(string(data), `"embeddings":[]`) {
			t.Errorf("%s: got %s", body, data)
		}
	}
}

// TestEmbeddingsRefuse checks that errors name the invalid field.
func TestEmbeddingsRefuse(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{MaxPrompt: 50, MaxPrompts: 2})
	for body, want := range map[string]string{
		`{}`: "input", `{"input":[]}`: "input", `{"input":[1,"a"]}`: "input", `{"input":{}}`: "input",
		`{"input":[256]}`: "input", `{"input":[-1]}`: "input", `{"input":["a",""]}`: "input", `{"input":[[]]}`: "input",
		`{"input":["a","b","c"]}`: "input", `{"input":"` + strings.Repeat("a", 51) + `"}`: "input",
		`{"input":"a","encoding_format":"hex"}`: "encoding_format", `{"input":"a","dimensions":0}`: "dimensions",
		`{"input":"a","dimensions":17}`: "dimensions", `{"input":"a","dimensions":1.5}`: "dimensions",
		`{"input":"a","model":"other"}`: "model",
	} {
		status, _, data := s.Do(http.MethodPost, "/v1/embeddings", body)
		var e struct{ Error struct{ Param string } }
		if e = servetest.Decode[struct{ Error struct{ Param string } }](t, data); status/100 != 4 ||
			e.Error.Param != want {
			t.Errorf("%s: status %d: %s", body, status, data)
		}
	}
}

// TestEmbeddingsStop checks that reading a text stops when its client disconnects.
func TestEmbeddingsStop(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	scheduler := session.NewScheduler(s.Model.Net, session.SchedulerOptions{})
	t.Cleanup(scheduler.Close)
	s.Model.Runner = scheduler
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/embeddings",
		strings.NewReader(`{"input":"`+strings.Repeat("The sea. ", 10000)+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		a, err := s.Client().Do(r)
		if err == nil {
			err = a.Body.Close()
		}
		ended <- err
	}()
	servetest.WaitUntil(t, func() bool { return scheduler.Stats().Read > 0 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	servetest.WaitUntil(t, func() bool { return scheduler.Stats().Clients == 0 })
	if n := scheduler.Stats().Read; n >= 90000 {
		t.Errorf("%d ids are read for a client that has gone", n)
	}
}

// TestEmbeddingsBesideReplies checks that concurrent embeddings and replies equal those of each alone.
func TestEmbeddingsBesideReplies(t *testing.T) {
	s := servetest.NewSite(t, serve.Options{})
	requests := map[string]string{
		"/v1/embeddings":  `{"input":["` + strings.Repeat("The sea. ", 200) + `","Call me"]}`,
		"/api/embed":      `{"model":"tiny","input":"Some years ago"}`,
		"/v1/completions": `{"prompt":"Call me","max_tokens":60,"seed":1,"n":3}`,
	}
	content := func(path string) string {
		_, _, data := s.Do(http.MethodPost, path, requests[path])
		text, _, _ := strings.Cut(string(data), `"usage":`) // the usage depends on what was cached
		for _, changing := range []string{`"id":"`, `"created":`, `"total_duration":`, `"load_duration":`} {
			if at := strings.Index(text, changing); at >= 0 {
				end := at + len(changing) + strings.IndexAny(text[at+len(changing):], `,}"`)
				text = text[:at] + text[end:]
			}
		}
		return text
	}
	want := map[string]string{}
	for path := range requests {
		want[path] = content(path)
	}
	var all sync.WaitGroup
	for range 6 {
		for path := range requests {
			all.Go(func() {
				if got := content(path); got != want[path] {
					t.Errorf("%s: got %.300s, alone %.300s", path, got, want[path])
				}
			})
		}
	}
	all.Wait()
}
