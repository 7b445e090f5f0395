package servetest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Library is a library of small models that counts how often they are loaded.
type Library struct {
	host.Library
	names []string
	Nets  map[string]*model.Model

	Mu         sync.Mutex
	Digests    map[string]string
	gone       map[string]bool
	Loads      map[string]int
	Now        int64 // bytes of the loaded models
	Most       int64
	BeforeLoad func(name string) error // is called before a load ends
	Folder     string                  // folder of texts, "" for none
}

// NewLibrary returns a library of models with the given names, each with its own weights.
func NewLibrary(t testing.TB, names ...string) *Library {
	t.Helper()
	s := &Library{names: names, Nets: map[string]*model.Model{}, Loads: map[string]int{},
		Digests: map[string]string{}, gone: map[string]bool{}, BeforeLoad: func(string) error { return nil }}
	for i, name := range names {
		net := Language(t)
		net.Params("", func(_ string, p *nn.Param) {
			x := make([]float32, p.Len())
			p.CopyTo(x)
			for j := range x {
				x[j] *= 1 + float32(i)/8
			}
			p.CopyFrom(x)
		})
		s.Nets[name] = net
	}
	s.Library = host.Library{
		Models: s.list, Load: s.load, KeepAlive: 5 * time.Minute, Texts: 16 << 20,
		Show: func(_ context.Context, info host.ModelInfo) (host.ModelCard, error) {
			return host.ModelCard{Parameters: s.Nets[info.Name].NumParams()}, nil
		},
		Delete: func(_ context.Context, info host.ModelInfo) error {
			s.Mu.Lock()
			defer s.Mu.Unlock()
			s.gone[info.Name] = true
			return nil
		},
		Pull: func(_ context.Context, name string, tell func(host.PullProgress)) error {
			s.Mu.Lock()
			defer s.Mu.Unlock()
			if s.Nets[name] == nil {
				return fmt.Errorf("the hub has no %s", name)
			}
			tell(host.PullProgress{Status: "pulling manifest"})
			tell(host.PullProgress{Status: "pulling " + name, Digest: "sha256:0", Done: 5, Total: 5})
			delete(s.gone, name)
			s.Digests[name] += "+"
			return nil
		},
		AddAdapter:    func(context.Context, host.NewAdapter) error { return nil },
		RemoveAdapter: func(context.Context, string) error { return nil },
	}
	return s
}

func (s *Library) list(context.Context) (all []host.ModelInfo, err error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for _, name := range s.names {
		if !s.gone[name] {
			n := int64(s.Nets[name].Bytes())
			all = append(all, host.ModelInfo{
				Name: name, Bytes: n, Memory: n, Digest: "digest of " + name + s.Digests[name], Precision: "float32",
				Parameters: int64(s.Nets[name].NumParams()), Modified: time.Unix(1e9, 0),
			})
		}
	}
	return all, nil
}

func (s *Library) load(ctx context.Context, info host.ModelInfo) (*host.Model, error) {
	net := s.Nets[info.Name]
	s.Mu.Lock()
	s.Loads[info.Name]++
	s.Now += int64(net.Bytes())
	s.Most = max(s.Most, s.Now)
	s.Mu.Unlock()
	leave := func() {
		s.Mu.Lock()
		defer s.Mu.Unlock()
		s.Now -= int64(net.Bytes())
	}
	loaded := false
	defer func() {
		if !loaded {
			leave()
		}
	}()
	if err := s.BeforeLoad(info.Name); err != nil {
		return nil, err
	}
	o := store.Options{Model: net, Identity: session.Identify(net, tokenizer.Bytes()), Memory: 1 << 20}
	if s.Folder != "" {
		o.Bucket = store.Folder(s.Folder)
	}
	texts, err := store.New(ctx, o)
	if err != nil {
		return nil, err
	}
	loaded = true
	runner := session.NewScheduler(net, session.SchedulerOptions{Waiting: 1 << 20})
	return host.NewModel(host.ModelOptions{
		Name: info.Name, Net: net, Tokenizer: tokenizer.Bytes(), Runner: runner, Texts: texts,
		OnClose: func() {
			runner.Close()
			leave()
		},
	}), nil
}

// Count returns how often a model was loaded.
func (s *Library) Count(name string) int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Loads[name]
}

// Alone returns the reply of a model that runs without a server.
func (s *Library) Alone(t *testing.T, name, prompt string, tokens int) string {
	t.Helper()
	m := host.NewModel(host.ModelOptions{Name: name, Net: s.Nets[name], Tokenizer: tokenizer.Bytes()})
	return Direct(t, m, BytesOf(prompt), generate.Options{MaxTokens: tokens})
}

// Serve starts a server of the library, which is closed when the test ends.
func (s *Library) Serve(t *testing.T, o serve.Options) *serve.Server {
	t.Helper()
	o.Library = &s.Library
	server, err := serve.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Close()
		if err := server.Unload(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return server
}

// Ask sends a request to a server without using the network.
func Ask(ctx context.Context, s *serve.Server, method, path, body string) (int, string) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, "http://localhost"+path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

// Complete requests a reply of 8 tokens.
func Complete(ctx context.Context, s *serve.Server, name, prompt string) (int, string) {
	return Ask(ctx, s, http.MethodPost, "/v1/completions",
		fmt.Sprintf(`{"model":%q,"prompt":%q,"max_tokens":8,"temperature":0}`, name, prompt))
}

// LoadedNames returns the names of the loaded models, in order.
func LoadedNames(s *serve.Server) []string {
	names := []string{}
	for _, l := range s.Host.Loaded() {
		names = append(names, l.Name)
	}
	slices.Sort(names)
	return names
}
