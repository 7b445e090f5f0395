package cloud

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// slowS3 starts an S3 server behind a proxy that delays each request by least plus up to more at random. On average the
// proxy loses the answer to one in failing requests, or to none if failing is 0.
func slowS3(t testing.TB, least, more time.Duration, failing int) (bucket string) {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("fleet"); err != nil {
		t.Fatal(err)
	}
	s3 := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(s3.Close)
	to, err := url.Parse(s3.URL)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(1, 2))
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		pause, fails := least+time.Duration(rng.Int64N(int64(more)+1)), failing > 0 && rng.IntN(failing) == 0
		mu.Unlock()
		time.Sleep(pause)
		if fails { // the request is done, but its answer is lost
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	return "s3://fleet?region=eu-west-1&use_path_style=true&disable_https=true&endpoint=" + front.URL + "&prefix=hippo/"
}

// server is a server of a fleet.
type server struct {
	t *testing.T
	*httptest.Server
}

func newServer(t *testing.T, b store.Shared) *server {
	t.Helper()
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.Layers, c.NumHeads, c.DState = 16, 256, "mamba,attention", 2, 8
	net, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	net.Init(1)
	s, err := serve.New(serve.Options{Bucket: b, Term: 2 * time.Second, Signer: signer},
		host.NewModel(host.ModelOptions{Name: "tiny", Net: net, Tokenizer: tokenizer.Bytes()}))
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Close()
		web.Close()
	})
	return &server{t, web}
}

var signer = session.NewSigner("")

// post sends a request and returns the status and the answer.
func (s *server) post(path, body string) (int, map[string]any) {
	a, err := http.Post(s.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return 0, nil
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	out := map[string]any{}
	if err != nil || json.Unmarshal(data, &out) != nil {
		s.t.Errorf("%s: %s, %v", path, data, err)
	}
	return a.StatusCode, out
}

// TestFleetOverS3 checks two servers that share a slow S3 bucket, which loses the answers to some requests. A session
// must continue at either server as it does at a single one. Of two requests at the same time, each must be stored once
// or refused.
func TestFleetOverS3(t *testing.T) {
	address := slowS3(t, 0, 10*time.Millisecond, 40)
	var fleet []*server
	for range 2 {
		b, err := store.Connect(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		fleet = append(fleet, newServer(t, b))
	}
	alone := newServer(t, nil)
	talk := func(at func(i int) *server) (path, said string) {
		status, o := at(0).post("/v1/sessions", `{"text":"Call me"}`)
		if status != 200 {
			t.Fatalf("status %d: %v", status, o)
		}
		path = "/v1/sessions/" + o["id"].(string)
		for i := range 6 {
			status, o = at(i).post(path+"/generate", `{"max_tokens":4,"seed":1,"ignore_eos":true,"logprobs":true}`)
			said += fmt.Sprint(status, o["text"], o["logprobs"])
		}
		_, o = at(0).post("/v1/responses", `{"input":"x","max_output_tokens":3,"temperature":0}`)
		status, o = at(1).post("/v1/responses", fmt.Sprintf(
			`{"input":"y","max_output_tokens":3,"temperature":0,"previous_response_id":%q}`, o["id"]))
		output, _ := json.Marshal(o["output"])
		_, text, _ := bytes.Cut(output, []byte(`"text"`))
		return path, said + fmt.Sprint(status, string(text[:min(len(text), 20)]))
	}
	_, want := talk(func(int) *server { return alone })
	path, got := talk(func(i int) *server { return fleet[i%2] })
	if got != want {
		t.Errorf("the fleet says\n%s\nwant\n%s", got, want)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	stored := map[string]bool{}
	for i := range 4 {
		all.Go(func() {
			for n := range 3 {
				token := fmt.Sprintf("(%d-%d)", i, n)
				status, o := fleet[i%2].post(path+"/append", `{"text":"`+token+`"}`)
				if status != 200 && status != 409 {
					t.Errorf("status %d: %v", status, o)
				}
				mu.Lock()
				stored[token] = status == 200
				mu.Unlock()
			}
		})
	}
	all.Wait()
	a, err := http.Get(fleet[0].URL + path + "?text=true")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for token, ok := range stored {
		if found := strings.Count(string(data), token) == 1; found != ok {
			t.Errorf("%s: stored %v, found %v in %s", token, ok, found, data)
		}
		if ok {
			n++
		}
	}
	if n < 4 {
		t.Errorf("only %d of %d were stored", n, len(stored))
	}
}
