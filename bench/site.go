package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// site is a server of a model, and a client.
type site struct {
	net       *model.Model
	url       string
	client    *http.Client
	scheduler *session.Scheduler
	server    *serve.Server
	web       *http.Server
}

// plainChat concatenates messages unchanged, so that texts of ids tokenize to the same ids.
const plainChat = `{% for m in messages %}{{ m.content }}{% endfor %}`

// newSite starts to serve a model of ids, with a prompt cache of memory bytes, or none if memory is 0.
func newSite(ctx context.Context, m *model.Model, memory int64) (*site, error) {
	return newChatSite(ctx, m, memory, tokenizer.IDs(m.Config.VocabSize), plainChat)
}

// newChatSite is newSite with a tokenizer and a chat template.
func newChatSite(ctx context.Context, m *model.Model, memory int64, tok tokenizer.Tokenizer, source string) (*site,
	error) {
	scheduler := session.NewScheduler(m, session.SchedulerOptions{Waiting: 1 << 20})
	o := host.ModelOptions{Name: "m", Net: m, Tokenizer: tok, Runner: scheduler}
	s := &site{net: m, scheduler: scheduler}
	var err error
	o.Settings = &chat.Settings{Source: source}
	if o.Settings.Template, err = template.Parse(source); err == nil && memory > 0 {
		o.Texts, err = store.New(ctx, store.Options{
			Model: m, Identity: session.Identify(m, o.Tokenizer), Memory: memory,
		})
	}
	if err == nil {
		s.server, err = serve.New(serve.Options{Concurrent: 1 << 14, StateMemory: 4 << 30, MaxImport: 4 << 30,
			Signer: benchSigner}, host.NewModel(o))
	}
	var l net.Listener
	if err == nil {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	}
	if err != nil {
		scheduler.Close()
		return nil, err
	}
	s.url = "http://" + l.Addr().String()
	s.web = &http.Server{Handler: s.server, ReadHeaderTimeout: time.Minute}
	s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 14}}
	go s.web.Serve(l) // until close
	return s, nil
}

func (s *site) close() {
	s.client.CloseIdleConnections()
	s.server.Close()
	s.web.Close()
	s.scheduler.Close()
}

// completions is the endpoint of requests.
const completions = "/v1/completions"

// request is the body of a completion request.
type request struct {
	Prompt   any  `json:"prompt"`
	Tokens   int  `json:"max_tokens"`
	Ignore   bool `json:"ignore_eos"`
	Stream   bool `json:"stream"`
	Echo     bool `json:"echo,omitempty"`
	Logprobs *int `json:"logprobs,omitempty"`
	Seed     int  `json:"seed"`
}

// benchSigner signs the states of all sites, so that they trust each other.
var benchSigner = session.NewSigner("")

// post sends a request with a body to an endpoint.
func (s *site) post(ctx context.Context, endpoint string, q any) (*http.Response, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	return s.send(ctx, http.MethodPost, endpoint, body)
}

// send sends a body to an endpoint.
func (s *site) send(ctx context.Context, method, endpoint string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.url+endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	a, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	if a.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(a.Body, 1000))
		return nil, errors.Join(fmt.Errorf("status %d: %s", a.StatusCode, text), err, a.Body.Close())
	}
	return a, nil
}

// stream requests a streamed reply, and calls each for every token.
func (s *site) stream(ctx context.Context, q request, each func()) error {
	q.Stream, q.Ignore = true, true
	a, err := s.post(ctx, completions, q)
	if err != nil {
		return err
	}
	defer a.Body.Close() // it was only read
	lines, n := bufio.NewScanner(a.Body), 0
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data: {") {
			n++
			each()
		}
	}
	if err := lines.Err(); err != nil || n < q.Tokens {
		return fmt.Errorf("%d tokens came of %d: %w", n, q.Tokens, errors.Join(err, ctx.Err()))
	}
	return nil
}

// whole requests a response that is not streamed.
func (s *site) whole(ctx context.Context, q request) error {
	a, err := s.post(ctx, completions, q)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, a.Body)
	return errors.Join(err, a.Body.Close())
}

// respond requests a response of one token to some ids, and returns its id. previous is the id of the previous
// response, or "".
func (s *site) respond(ctx context.Context, ids []int32, previous string) (id string, err error) {
	q := map[string]any{"input": string(tokenizer.IDs(s.net.Config.VocabSize).Decode(nil, ids)), "max_output_tokens": 1}
	if previous != "" {
		q["previous_response_id"] = previous
	}
	a, err := s.post(ctx, "/v1/responses", q)
	if err != nil {
		return "", err
	}
	var answer struct{ ID string }
	err = json.NewDecoder(a.Body).Decode(&answer)
	return answer.ID, errors.Join(err, a.Body.Close())
}

// endAtOnce makes every id end a reply. A reply that ends this way has been read completely, while a length limit
// leaves its last id to the next request.
func (s *site) endAtOnce() {
	ends := make([]int32, s.net.Config.VocabSize)
	for i := range ends {
		ends[i] = int32(i)
	}
	s.server.Host.Loaded()[0].Model.Settings.EndIDs = ends
}

// reads returns the number of ids of prompts that have been read so far.
func (s *site) reads() float64 { return float64(s.scheduler.Stats().Read) }

// inParallel calls f concurrently for the numbers below n.
func inParallel(n int, f func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}
