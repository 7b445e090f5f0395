package host_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hippo-ssm/hippo/internal/testkit/servetest"
	"github.com/hippo-ssm/hippo/serve"
	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/ollama"
	"github.com/hippo-ssm/hippo/serve/openai"
	"github.com/hippo-ssm/hippo/serve/request"
)

// TestManyAskForModelsUnderALimit checks that when a hundred clients use three models, of which one or two fit in
// memory, each reply equals that of the model alone, the limit is kept at all times, and nothing is left in the end.
func TestManyAskForModelsUnderALimit(t *testing.T) {
	names := []string{"one", "two", "three"}
	prompts := []string{"Call me", "鯨は", "It is a way I have", "Some years ago"}
	for room := 1; room <= 2; room++ {
		s := servetest.NewLibrary(t, names...)
		size := int64(s.Nets["one"].Bytes())
		s.Memory = int64(room)*size + size/2
		want := map[string]string{}
		for _, name := range names {
			for _, p := range prompts {
				want[name+p] = s.Alone(t, name, p, 8)
			}
		}
		before := runtime.NumGoroutine()
		server := s.Serve(t, serve.Options{})
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				for turn := range 3 {
					name, p := names[(i+turn)%3], prompts[i%4]
					status, data := servetest.Complete(t.Context(), server, name, p)
					a := servetest.Decode[openai.Completion](t, []byte(data))
					if status != http.StatusOK || a.Model != name || a.Choices[0].Text != want[name+p] {
						t.Errorf("%s after %q: status %d, %s, want %q", name, p, status, data, want[name+p])
					}
				}
			})
		}
		all.Wait()
		server.Close()
		if err := server.Unload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.Most > s.Memory || s.Now != 0 {
			t.Errorf("room for %d: up to %d bytes were loaded, want %d; %d are left", room, s.Most, s.Memory, s.Now)
		}
		if status, data := servetest.Complete(t.Context(), server, "one",
			"a"); status != http.StatusServiceUnavailable {
			t.Errorf("a server that has ended answers %d, %s", status, data)
		}
		before += runtime.GOMAXPROCS(0) - 1 // the workers remain
		for late := time.Now().Add(time.Minute); runtime.NumGoroutine() > before && time.Now().Before(late); {
			runtime.Gosched()
		}
		if n := runtime.NumGoroutine(); n > before {
			t.Errorf("there are %d goroutines, want at most %d", n, before)
		}
		t.Logf("room for %d of 3: loaded %v", room, s.Loads)
	}
}

// TestClientsThatLeave checks that clients that disconnect at any moment, while models are loaded and unloaded, affect
// no other client and leave nothing behind.
func TestClientsThatLeave(t *testing.T) {
	names := []string{"one", "two", "three"}
	s := servetest.NewLibrary(t, names...)
	s.Memory = int64(s.Nets["one"].Bytes()) * 3 / 2
	s.KeepAlive = time.Millisecond
	server := s.Serve(t, serve.Options{Queue: 40})
	want := map[string]string{}
	for _, name := range names {
		want[name] = s.Alone(t, name, "Call me", 8)
	}
	var all sync.WaitGroup
	var answered, left, refused atomic.Int32
	for i := range 60 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for range 10 {
				name := names[random.IntN(3)]
				patience := time.Duration(random.ExpFloat64() * float64(200*time.Millisecond))
				ctx, leave := context.WithTimeout(t.Context(), patience)
				switch status, data := servetest.Complete(ctx, server, name, "Call me"); status {
				case http.StatusOK:
					answered.Add(1)
					if got := servetest.Decode[openai.Completion](t, []byte(data)).Choices[0].Text; got != want[name] {
						t.Errorf("%s: got %q, want %q", name, got, want[name])
					}
				case http.StatusTooManyRequests:
					refused.Add(1)
				// the deadline of a context is not a disconnect
				case request.StatusGone, http.StatusInternalServerError:
					left.Add(1)
				default:
					t.Errorf("status %d, %s", status, data)
				}
				leave()
			}
		})
	}
	all.Wait()
	for _, name := range names {
		if status, data := servetest.Complete(t.Context(), server, name, "Call me"); status != http.StatusOK {
			t.Errorf("%s in the end: status %d, %s", name, status, data)
		}
	}
	if err := server.Unload(t.Context()); err != nil {
		t.Fatal(err)
	}
	waiting, queue, entries := server.Host.Left()
	if waiting != 0 || server.Host.Used() != 0 || queue != 0 || entries != 0 || s.Now != 0 || s.Most > s.Memory {
		t.Errorf("left are %d requests, %d bytes, %d in the queue, %d entries; %d bytes at most", waiting,
			server.Host.Used(),
			queue, entries, s.Most)
	}
	t.Logf("%d answered, %d left, %d refused; loaded %v", answered.Load(), left.Load(), refused.Load(), s.Loads)
}

// TestTextsOfModelsThatGo checks that cached texts are available after a model was unloaded and loaded again, if its
// store can keep them outside of memory.
func TestTextsOfModelsThatGo(t *testing.T) {
	s := servetest.NewLibrary(t, "one")
	server := s.Serve(t, serve.Options{})
	cached := func(prompt string) int {
		t.Helper()
		status, data := servetest.Complete(t.Context(), server, "one", prompt)
		if status != http.StatusOK {
			t.Fatalf("status %d, %s", status, data)
		}
		return servetest.Decode[openai.Completion](t, []byte(data)).Usage.Details.Cached
	}
	goes := func() {
		t.Helper()
		servetest.Ask(t.Context(), server, http.MethodPost, "/api/generate", `{"model":"one","keep_alive":0}`)
	}
	prompt := strings.Repeat("Call me Ishmael. ", 20)
	if cached(prompt) != 0 || cached(prompt) == 0 {
		t.Error("a text is not kept in memory")
	}
	goes()
	if n := cached(prompt); n != 0 {
		t.Errorf("%d ids are there of what was only in memory", n)
	}
	s.Folder = t.TempDir()
	goes()
	if cached(prompt) != 0 {
		t.Error("a text is there that nobody has read")
	}
	goes()
	if n := cached(prompt); n != len(prompt) {
		t.Errorf("%d ids are there of what was stored, want %d", n, len(prompt))
	}
}

// bubble is synctest.Test on one core, where loops run inline. The helpers of package parallel are goroutines outside
// of any bubble, and cannot share a loop with a goroutine inside.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, f)
}

// TestKeepAlive checks that an idle model is unloaded after the server's time, or after that of the last request that
// set one: never, at once, or a duration.
func TestKeepAlive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := servetest.NewLibrary(t, "one", "two")
		server := s.Serve(t, serve.Options{})
		wantLoaded := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			if got := servetest.LoadedNames(server); !slices.Equal(got, want) {
				t.Errorf("%s: %q are loaded, want %q", when, got, want)
			}
		}
		wantAnswer := func(path, body, want string) {
			t.Helper()
			if status, data := servetest.Ask(t.Context(), server, http.MethodPost, path,
				body); status != http.StatusOK ||
				!strings.Contains(data, want) {
				t.Errorf("%s %s: status %d, %s, want %s", path, body, status, data, want)
			}
		}
		wantLoaded("at the start")
		servetest.Complete(t.Context(), server, "one", "a")
		time.Sleep(4 * time.Minute)
		servetest.Complete(t.Context(), server, "one", "a")
		time.Sleep(4 * time.Minute)
		wantLoaded("4 minutes after the last use", "one")
		time.Sleep(time.Minute)
		wantLoaded("5 minutes after it")

		const text = `"prompt":"a","raw":true,"stream":false,"options":{"num_predict":2}`
		wantAnswer("/api/generate", `{"model":"one","keep_alive":"-1s",`+text+`}`, `"done_reason":"length"`)
		wantAnswer("/api/generate", `{"model":"two","keep_alive":90,`+text+`}`, `"done_reason":"length"`)
		time.Sleep(89 * time.Second)
		wantLoaded("after 89 seconds", "one", "two")
		time.Sleep(time.Second)
		wantLoaded("after 90 seconds", "one")
		time.Sleep(1000 * time.Hour)
		wantLoaded("after 1000 hours", "one")
		wantAnswer("/api/generate", `{"model":"two","keep_alive":0,`+text+`}`, `"done_reason":"length"`)
		wantLoaded("after a reply that is kept not at all", "one")
		wantAnswer("/api/generate", `{"model":"one","keep_alive":0}`, `"done_reason":"unload"`)
		wantLoaded("after one was sent away")
		wantAnswer("/api/chat", `{"model":"TWO:latest","messages":[],"keep_alive":0}`, `"done_reason":"unload"`)
		wantAnswer("/api/chat", `{"model":"TWO:latest","messages":[]}`, `"done_reason":"load"`)
		wantLoaded("after a request for it", "two")
		time.Sleep(5 * time.Minute)
		wantLoaded("5 minutes after it")
		wantAnswer("/api/embed", `{"model":"two","input":"a","keep_alive":0}`, `"embeddings":[[`)
		wantAnswer("/api/embeddings", `{"model":"two","prompt":"a","keep_alive":0}`, `"embedding":[`)
		wantLoaded("after embeddings that keep it not at all")
		for _, body := range []string{`{"model":"one","keep_alive":"soon"}`, `{"model":"one","keep_alive":[1]}`} {
			if status, data := servetest.Ask(t.Context(), server, http.MethodPost, "/api/generate",
				body); status != 400 ||
				!strings.Contains(data, "keep_alive: found") {
				t.Errorf("%s: status %d, %s", body, status, data)
			}
		}
		if s.Count("one") != 2 || s.Count("two") != 5 {
			t.Errorf("loaded %v times", s.Loads)
		}
		all := servetest.Figures(t, server.Admin())
		for name, want := range map[string]float64{
			`{change="loaded",model="one"}`: 2, `{change="loaded",model="two"}`: 5,
			`{change="unloaded",model="two"}`: 5,
		} {
			if got := all["hippo_model_changes_total"+name]; got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if n := all[`hippo_model_load_seconds_count{model="two"}`]; n != 5 {
			t.Errorf("%v loads of two were timed, want 5", n)
		}
	})
}

// TestFirstRequestsShareALoad checks that concurrent first requests load the model once, and that one that disconnects
// does not affect the others.
func TestFirstRequestsShareALoad(t *testing.T) {
	s := servetest.NewLibrary(t, "one", "two")
	loads, goOn := make(chan string, 1), make(chan struct{})
	s.BeforeLoad = func(name string) error {
		if name == "one" {
			loads <- name
			<-goOn
		}
		return nil
	}
	server := s.Serve(t, serve.Options{})
	want := s.Alone(t, "one", "Call me", 8)
	leaving, leave := context.WithCancel(t.Context())
	left := make(chan int)
	go func() {
		status, _ := servetest.Complete(leaving, server, "one", "Call me") // the first request
		left <- status
	}()
	<-loads
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if status, data := servetest.Complete(t.Context(), server, "one", "Call me"); status != http.StatusOK ||
				servetest.Decode[openai.Completion](t, []byte(data)).Choices[0].Text != want {
				t.Errorf("status %d, %s, want %q", status, data, want)
			}
		})
	}
	_, said := servetest.Ask(t.Context(), server, http.MethodGet, "/api/ps", "")
	if l := servetest.Decode[ollama.Loaded](t, []byte(said)); len(l.Models) != 0 || len(l.Loading) != 1 ||
		l.Loading[0].Name != "one" ||
		!l.Loading[0].Started || l.Loading[0].Waiting < 1 {
		t.Errorf("while a model is loaded there are %s", said)
	}
	leave()
	if status := <-left; status != request.StatusGone {
		t.Errorf("who has gone has the status %d", status)
	}
	// A model that is being loaded does not delay another.
	if status, data := servetest.Complete(t.Context(), server, "two", "a"); status != http.StatusOK {
		t.Errorf("the other model answers %d, %s", status, data)
	}
	close(goOn)
	all.Wait()
	if n := s.Count("one"); n != 1 {
		t.Errorf("loaded %d times, want once", n)
	}
}

// TestLoadThatFails checks that all requests that wait for a model get the error of its load, also for a panic, and
// that the next request tries again.
func TestLoadThatFails(t *testing.T) {
	s := servetest.NewLibrary(t, "one")
	var try atomic.Int32
	server := s.Serve(t, serve.Options{})
	s.BeforeLoad = func(string) error {
		if try.Add(1) == 1 {
			for servetest.WaitingFor(server, "one") < 5 {
				runtime.Gosched()
			}
			return errors.New("the disk is on fire")
		}
		if try.Load() == 2 {
			panic("no such luck")
		}
		return nil
	}
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			status, data := servetest.Complete(t.Context(), server, "one", "a")
			if status != http.StatusInternalServerError || !strings.Contains(data, "the disk is on fire") ||
				!strings.Contains(data, "model_load_failed") {
				t.Errorf("status %d, %s", status, data)
			}
		})
	}
	all.Wait()
	if status, data := servetest.Complete(t.Context(), server, "one", "a"); status != http.StatusInternalServerError ||
		!strings.Contains(data, "no such luck") {
		t.Errorf("after a panic: status %d, %s", status, data)
	}
	if status, data := servetest.Complete(t.Context(), server, "one", "a"); status != http.StatusOK {
		t.Errorf("the third try: status %d, %s", status, data)
	}
	if s.Now != int64(s.Nets["one"].Bytes()) || server.Host.Used() != s.Now {
		t.Errorf("%d bytes are counted, %d are loaded", server.Host.Used(), s.Now)
	}
}

// TestWaitingForRoom checks that a model waits until those in use free memory, the least recently used model is
// unloaded first, a model that never fits is refused, and no request waits longer, or with more others, than the limits
// allow.
func TestWaitingForRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := servetest.NewLibrary(t, "one", "two", "three")
		size := int64(s.Nets["one"].Bytes())
		s.Memory = 2*size + size/2
		server := s.Serve(t, serve.Options{Queue: 2, QueueWait: time.Minute})
		use := func(name string) *host.Resident {
			t.Helper()
			e, _, err := host.Acquire(server.Host, t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		one, two := use("one"), use("two")
		began := time.Now()
		status, data := servetest.Complete(t.Context(), server, "three", "a")
		if status != http.StatusTooManyRequests || !strings.Contains(data, "found no room") ||
			time.Since(began) != time.Minute {
			t.Errorf("after %v without room: status %d, %s", time.Since(began), status, data)
		}
		// A request that waited in vain is in nobody's way.
		host.Release(server.Host, use("one"))

		answers := make(chan int, 3)
		request := func(name string) {
			status, _ := servetest.Complete(t.Context(), server, name, "a")
			answers <- status
		}
		go request("three")
		synctest.Wait()
		go request("two") // it has to free memory, as the least recently used one
		synctest.Wait()
		if status, data := servetest.Complete(t.Context(), server, "three", "a"); status != http.StatusTooManyRequests {
			t.Errorf("one more than may wait: status %d, %s", status, data)
		}
		host.Release(server.Host, use("one")) // it need not free memory
		host.Release(server.Host, two)
		for range 2 {
			if status := <-answers; status != http.StatusOK {
				t.Errorf("who waited has the status %d", status)
			}
		}
		if got := servetest.LoadedNames(server); !slices.Equal(got, []string{"one", "two"}) || s.Count("two") != 2 {
			t.Errorf("%q are loaded, two for the time %d", got, s.Count("two"))
		}
		host.Release(server.Host, one)
		server.Host.Locked(func() { s.Memory = size / 2 })
		if status, data := servetest.Complete(t.Context(), server, "three",
			"a"); status != http.StatusServiceUnavailable ||
			!strings.Contains(data, "model_too_large") {
			t.Errorf("what is larger than the memory: status %d, %s", status, data)
		}
	})
}

// TestFilesThatChange checks that a model whose files have changed is loaded again when the old one is idle, and that
// one that was removed answers until the requests that use it have ended.
func TestFilesThatChange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := servetest.NewLibrary(t, "one")
		server := s.Serve(t, serve.Options{})
		change := func() {
			time.Sleep(2 * host.Freshness)
			s.Mu.Lock()
			s.Digests["one"] += "'"
			s.Mu.Unlock()
		}
		want := func(loads int) {
			t.Helper()
			status, data := servetest.Complete(t.Context(), server, "one", "a")
			if n := s.Count("one"); status != http.StatusOK || n != loads {
				t.Errorf("status %d, %s, loaded %d times, want %d", status, data, n, loads)
			}
		}
		want(1)
		want(1)
		change()
		want(2)
		e, _, err := host.Acquire(server.Host, t.Context(), "one")
		if err != nil {
			t.Fatal(err)
		}
		change()
		want(2)
		host.Release(server.Host, e)
		want(3)
		if e, _, err = host.Acquire(server.Host, t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
		status, data := servetest.Ask(t.Context(), server, http.MethodDelete, "/api/delete", `{"name":"one"}`)
		if status != http.StatusOK {
			t.Errorf("delete: status %d, %s", status, data)
		}
		if status, data := servetest.Complete(t.Context(), server, "one", "a"); status != http.StatusNotFound {
			t.Errorf("after delete: status %d, %s", status, data)
		}
		if got := servetest.LoadedNames(server); len(got) != 1 {
			t.Errorf("a model in use has gone")
		}
		servetest.Ask(t.Context(), server, http.MethodPost, "/api/pull", `{"model":"one"}`)
		go host.Release(server.Host, e)
		want(4)
	})
}
