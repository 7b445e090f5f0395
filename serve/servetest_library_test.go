package serve

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
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// books is a library of small models that counts what is loaded.
type books struct {
	Library
	names []string
	nets  map[string]*model.Model

	mu      sync.Mutex
	digests map[string]string
	gone    map[string]bool
	loads   map[string]int
	now     int64 // bytes of what is loaded
	most    int64
	before  func(name string) error // is called before a load ends
	folder  string                  // of texts, "" for none
}

// newBooks has models of some names, each with weights of its own.
func newBooks(t testing.TB, names ...string) *books {
	t.Helper()
	s := &books{names: names, nets: map[string]*model.Model{}, loads: map[string]int{},
		digests: map[string]string{}, gone: map[string]bool{}, before: func(string) error { return nil }}
	for i, name := range names {
		net := language(t)
		net.Params("", func(_ string, p *nn.Param) {
			x := make([]float32, p.Len())
			p.CopyTo(x)
			for j := range x {
				x[j] *= 1 + float32(i)/8
			}
			p.CopyFrom(x)
		})
		s.nets[name] = net
	}
	s.Library = Library{
		Models: s.list, Load: s.load, KeepAlive: 5 * time.Minute, Texts: 16 << 20,
		Show: func(_ context.Context, info ModelInfo) (ModelCard, error) {
			return ModelCard{Parameters: s.nets[info.Name].NumParams()}, nil
		},
		Delete: func(_ context.Context, info ModelInfo) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.gone[info.Name] = true
			return nil
		},
		Pull: func(_ context.Context, name string, tell func(PullProgress)) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.nets[name] == nil {
				return fmt.Errorf("the hub has no %s", name)
			}
			tell(PullProgress{Status: "pulling manifest"})
			tell(PullProgress{Status: "pulling " + name, Digest: "sha256:0", Done: 5, Total: 5})
			delete(s.gone, name)
			s.digests[name] += "+"
			return nil
		},
	}
	return s
}

func (s *books) list(context.Context) (all []ModelInfo, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.names {
		if !s.gone[name] {
			n := int64(s.nets[name].Bytes())
			all = append(all, ModelInfo{
				Name: name, Bytes: n, Memory: n, Digest: "digest of " + name + s.digests[name], Precision: "float32",
				Parameters: int64(s.nets[name].NumParams()), Modified: time.Unix(1e9, 0),
			})
		}
	}
	return all, nil
}

func (s *books) load(ctx context.Context, info ModelInfo) (*Model, error) {
	net := s.nets[info.Name]
	s.mu.Lock()
	s.loads[info.Name]++
	s.now += int64(net.Bytes())
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now -= int64(net.Bytes())
	}
	loaded := false
	defer func() {
		if !loaded {
			leave()
		}
	}()
	if err := s.before(info.Name); err != nil {
		return nil, err
	}
	o := store.Options{Model: net, Identity: session.Identify(net, tokenizer.Bytes()), Memory: 1 << 20}
	if s.folder != "" {
		o.Bucket = store.Folder(s.folder)
	}
	texts, err := store.New(ctx, o)
	if err != nil {
		return nil, err
	}
	loaded = true
	runner := session.NewScheduler(net, session.SchedulerOptions{Waiting: 1 << 20})
	return NewModel(ModelOptions{
		Name: info.Name, Net: net, Tokenizer: tokenizer.Bytes(), Runner: runner, Texts: texts,
		Close: func() {
			runner.Close()
			leave()
		},
	}), nil
}

// count is how often a model was loaded.
func (s *books) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loads[name]
}

// alone is the reply of a model without a server.
func (s *books) alone(t *testing.T, name, prompt string, tokens int) string {
	t.Helper()
	m := NewModel(ModelOptions{Name: name, Net: s.nets[name], Tokenizer: tokenizer.Bytes()})
	return direct(t, m, bytesOf(prompt), generate.Options{MaxTokens: tokens})
}

// server is a server of the library, which ends with the test.
func (s *books) server(t *testing.T, o Options) *Server {
	t.Helper()
	o.Library = &s.Library
	server, err := New(o)
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

// ask sends a request to a server without a network.
func ask(ctx context.Context, s *Server, method, path, body string) (int, string) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, "http://localhost"+path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

// complete is a request for a reply of 8 tokens.
func complete(ctx context.Context, s *Server, name, prompt string) (int, string) {
	return ask(ctx, s, http.MethodPost, "/v1/completions",
		fmt.Sprintf(`{"model":%q,"prompt":%q,"max_tokens":8,"temperature":0}`, name, prompt))
}

// loadedNames are those of the models that are loaded, in order.
func loadedNames(s *Server) []string {
	names := []string{}
	for _, l := range s.host.loaded() {
		names = append(names, l.Name)
	}
	slices.Sort(names)
	return names
}
