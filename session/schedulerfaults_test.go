package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
)

// noneLeft fails the test if a goroutine of a scheduler keeps running.
func noneLeft(t *testing.T) {
	t.Helper()
	stacks := ""
	for range 1000 {
		buf := make([]byte, 1<<20)
		if stacks = string(buf[:runtime.Stack(buf, true)]); !strings.Contains(stacks, "session.(*Scheduler)") {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("goroutines are left:\n%s", stacks)
}

// TestCanceledAtAnyMoment checks that requests canceled while they wait, read or write end with the error of their
// context at the end of a piece. All others have the same results as alone, and no goroutine of the scheduler is left.
func TestCanceledAtAnyMoment(t *testing.T) {
	m := servedModel(t, servedMix, engine.Float32)
	s := NewScheduler(m, SchedulerOptions{Running: 7, Rows: 20})
	rng := rand.New(rand.NewPCG(1, 2))
	canceled := 0
	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range 200 {
		w := wishOf(uint64(i % 32))
		w.draws += 5
		ctx, cancel := context.WithCancel(t.Context())
		yields := rng.IntN(2000)
		all.Go(func() {
			for range yields {
				runtime.Gosched()
			}
			if i%2 == 0 {
				cancel()
			}
		})
		all.Go(func() {
			defer cancel()
			var out served
			r := w.request(m, &out)
			r.Client = fmt.Sprint(i % 5)
			if i%8 == 0 { // always canceled while it writes, however fast the others are
				draw := r.Next
				r.Next = func(logits []float32) (int32, bool, error) {
					if len(out.ids) == i%5 {
						cancel()
					}
					return draw(logits)
				}
			}
			err := s.Run(ctx, r)
			switch at := r.Session.Position(); {
			case err == nil:
				if out.ended(r.Session); !out.equal(w.alone(t, m)) {
					t.Errorf("request %d has another answer than alone", i)
				}
			case !errors.Is(err, context.Canceled) || i%2 != 0:
				t.Error(err)
			case !slices.Contains(w.cuts(), at):
				t.Errorf("request %d was canceled at position %d, which is not the end of a piece", i, at)
			default:
				mu.Lock()
				canceled++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	stats := s.Stats()
	s.Close()
	if stats.Ended-stats.Failed != 200-canceled || stats.Failed == 0 || stats.Running+stats.Waiting+stats.Clients > 0 {
		t.Errorf("%d requests were canceled; statistics %+v", canceled, stats)
	}
	noneLeft(t)
}

// cuts returns the positions at which a request may stop.
func (w wish) cuts() []int {
	cuts, at := []int{0}, 0
	for _, s := range w.segments {
		for range s.IDs {
			if at++; s.Drawn || at%servedChunk == 0 {
				cuts = append(cuts, at)
			}
		}
		cuts = append(cuts, at)
	}
	for range w.draws {
		at++
		cuts = append(cuts, at)
	}
	return cuts
}

// TestFaultsHitOnlyTheirRequest checks that a request ends with an error if a callback fails or panics, its logits are
// NaN or it asks for ids that cannot be read. All others have the same results as alone.
func TestFaultsHitOnlyTheirRequest(t *testing.T) {
	m := servedModel(t, servedMix, engine.Float32)
	s := NewScheduler(m, SchedulerOptions{})
	broken := errors.New("broken")
	faults := map[string]func(*Request){
		"broken": func(r *Request) { r.Next = func([]float32) (int32, bool, error) { return 0, false, broken } },
		"id 1000": func(r *Request) {
			r.Next = func([]float32) (int32, bool, error) { return 1000, true, nil }
		},
		"id -1":       func(r *Request) { r.Segments = []Segment{{IDs: []int32{3, -1}}} },
		"of 2 seq":    func(r *Request) { r.Session = generate.NewBatch(m, 2) },
		"NaN":         func(r *Request) { spoil(t, r.Session) },
		"Each":        func(r *Request) { r.Each = func(int, []float32) { panic(broken) } },
		"no logits":   func(r *Request) { r.Segments = nil },
		"0 ids":       func(r *Request) { r.Segments = []Segment{{}} },
		"other model": func(r *Request) { r.Session = generate.NewBatch(servedModel(t, "h3", engine.Float32), 1) },
	}
	var all sync.WaitGroup
	for what, fault := range faults {
		all.Go(func() {
			w := wishOf(3)
			w.draws = 5
			r := w.request(m, new(served))
			fault(r)
			if err := s.Run(t.Context(), r); err == nil {
				t.Errorf("%s: no error", what)
			}
		})
	}
	for _, panics := range []func(*Request){
		func(r *Request) { r.Next = func([]float32) (int32, bool, error) { panic(broken) } },
		func(r *Request) { r.Progress = func(int, int) { panic(broken) } },
	} {
		all.Go(func() {
			defer func() {
				if p := recover(); p != broken {
					t.Errorf("Run panicked with %v, want what the callback did", p)
				}
			}()
			r := wishOf(3).request(m, new(served))
			panics(r)
			t.Error("no panic:", s.Run(t.Context(), r))
		})
	}
	for i := range 10 {
		all.Go(func() {
			var out served
			w := wishOf(uint64(i))
			r := w.request(m, &out)
			if err := s.Run(t.Context(), r); err != nil {
				t.Error(err)
			}
			if out.ended(r.Session); !out.equal(w.alone(t, m)) {
				t.Errorf("request %d has another answer than alone", i)
			}
		})
	}
	all.Wait()
	s.Close()
	noneLeft(t)
}

// spoil makes all numbers of the state of s NaN.
func spoil(t *testing.T, s *generate.Batch) {
	nan := float32(0)
	nan /= nan
	state := s.State(0)
	for _, part := range []struct {
		name  string
		shape []int
	}{{"layers.0.shift", []int{16, 8}}, {"layers.3.shift", []int{16, 8}}} {
		if err := state.Restore(part.name, part.shape, slices.Repeat([]float32{nan}, 16*8)); err != nil {
			t.Error(err)
		}
	}
}

// TestModelPanicEndsTheStep checks that if the model panics, the requests of the step end with an error that contains
// the stack, and later requests are served.
func TestModelPanicEndsTheStep(t *testing.T) {
	m := servedModel(t, servedMix, engine.Float32)
	s := newScheduler(m, SchedulerOptions{})
	w := wishOf(1)
	want := w.alone(t, m)
	bad := w.request(m, new(served))
	bad.Session.State(0).Mixers[0] = generate.NewBatch(m, 1).State(0).Mixers[1] // state of the wrong mixer
	var all sync.WaitGroup
	for _, r := range []*Request{bad, w.request(m, new(served))} {
		all.Go(func() {
			var panicked *PanicError
			if err := s.Run(t.Context(), r); !errors.As(err, &panicked) || len(panicked.Stack) == 0 {
				t.Errorf("found the error %v, want a panic", err)
			}
		})
	}
	s.beginWith(2)
	all.Wait()
	var out served
	r := w.request(m, &out)
	if err := s.Run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if out.ended(r.Session); !out.equal(want) {
		t.Error("a request after it has another answer than alone")
	}
	s.Close()
}

// TestBusy checks that a request beyond the limits of the scheduler or of its client fails at once with an error that
// names the limit, and that a session can be in one request at a time only.
func TestBusy(t *testing.T) {
	m := servedModel(t, "h3", engine.Float32)
	s := newScheduler(m, SchedulerOptions{Running: 2, Waiting: 3, PerClient: 4})
	var all sync.WaitGroup
	var first *Request
	run := func(client string) *Request {
		r := wishOf(1).request(m, new(served))
		r.Client = client
		all.Go(func() {
			if err := s.Run(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
		return r
	}
	refused := func(client, why string) {
		t.Helper()
		r := wishOf(1).request(m, new(served))
		r.Client = client
		if err := s.Run(t.Context(), r); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), why) {
			t.Errorf("found the error %v, want busy with %q", err, why)
		}
	}
	for range 4 {
		first = run("a")
	}
	s.wait(4)
	refused("a", "the client has 4 requests")
	if err := s.Run(t.Context(), first); err == nil || errors.Is(err, ErrBusy) {
		t.Errorf("the same session twice: %v", err)
	}
	run("b")
	s.wait(5)
	refused("b", "2 requests are running and 3 waiting")
	if n := s.Stats().Refused; n != 2 {
		t.Errorf("%d are counted as refused, want 2", n)
	}
	s.beginWith(5)
	all.Wait()
	run("a")
	all.Wait()
	s.Close()
}

// wait waits until n requests wait for a step.
func (s *Scheduler) wait(n int) {
	for s.Stats().Waiting != n {
		runtime.Gosched()
	}
}

// TestClose checks that Close ends requests that read, write or wait, and that Drain lets them finish first unless its
// context is done. Neither admits requests afterwards.
func TestClose(t *testing.T) {
	m := servedModel(t, "h3", engine.Float32)
	const requests = 9
	for what, end := range map[string]struct {
		close func(*Scheduler) error
		want  error
		drawn int // ids sampled by each request, -1 for any number
	}{
		"Close":   {func(s *Scheduler) error { s.Close(); return nil }, ErrClosed, -1},
		"no time": {func(s *Scheduler) error { return s.Drain(done()) }, ErrClosed, -1},
		"Drain":   {func(s *Scheduler) error { return s.Drain(context.Background()) }, nil, 30},
		"twice":   {func(s *Scheduler) error { s.Close(); return s.Drain(context.Background()) }, ErrClosed, -1},
	} {
		s := newScheduler(m, SchedulerOptions{Running: 4})
		var all sync.WaitGroup
		for i := range requests {
			all.Go(func() {
				w := wish{seed: uint64(i), segments: []Segment{{IDs: make([]int32, 20)}}, draws: 30}
				var out served
				if what != "Drain" {
					w.draws = 1 << 40
				}
				err := s.Run(t.Context(), w.request(m, &out))
				if !errors.Is(err, end.want) || end.drawn >= 0 && len(out.ids) != end.drawn {
					t.Errorf("%s: request %d ended after %d ids with %v, want %v", what, i, len(out.ids), err, end.want)
				}
			})
		}
		s.wait(requests)
		go s.loop()
		for s.Stats().Steps < 5 {
			runtime.Gosched()
		}
		if err := end.close(s); what == "no time" != errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
		all.Wait()
		if err := s.Run(t.Context(), wishOf(1).request(m, new(served))); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: a later request has the error %v", what, err)
		}
	}
	noneLeft(t)
}

// done returns a context that is done.
func done() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestSlowClientsHoldUpNobody checks that other requests are served while one does not return from Next.
func TestSlowClientsHoldUpNobody(t *testing.T) {
	m := servedModel(t, "h3", engine.Float32)
	s := NewScheduler(m, SchedulerOptions{})
	defer s.Close()
	slow, free := wishOf(2).request(m, new(served)), make(chan struct{})
	slow.Next = func([]float32) (int32, bool, error) {
		<-free
		return 0, false, nil
	}
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.Run(t.Context(), slow); err != nil {
			t.Error(err)
		}
	})
	var out served
	r := wish{segments: []Segment{{IDs: []int32{1}}}, draws: 10}.request(m, &out)
	if err := s.Run(t.Context(), r); err != nil || len(out.ids) != 10 {
		t.Errorf("drew %d ids: %v", len(out.ids), err)
	}
	close(free)
	all.Wait()
}
