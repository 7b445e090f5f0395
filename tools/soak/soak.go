package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// soak is one run of this program.
type soak struct {
	time, kill      time.Duration
	clients, tokens int
	command         []string

	address, adminAddress string
	log                   *os.File
	http                  *http.Client
	alone                 map[string]string // the replies to prompts without other clients

	mu      sync.Mutex
	now     *server // the running server, or nil
	since   time.Time
	stored  map[string]string // texts of the responses that the server stores, by id
	keeps   bool              // the server has a store, which survives a kill
	keeping atomic.Int64      // number of responses requested to be stored
	slowing atomic.Int64      // number of slow clients
	talks   [mostSessions]talk
	counts  sync.Map // *atomic.Int64 by name
	summary
}

// summary is the result of a run.
type summary struct {
	Seconds  float64          `json:"seconds"`
	Clients  int              `json:"clients"`
	Did      map[string]int64 `json:"did"`
	Kills    int              `json:"kills"`
	Stored   int              `json:"stored"`
	Lives    []life           `json:"lives"`
	Rest     life             `json:"at_rest"` // after all clients have gone
	Problems []string         `json:"problems"`
}

// life holds the figures of the time between two starts of the server or, if it is never killed, of a minute.
type life struct {
	Seconds    float64 `json:"seconds"`
	Goroutines float64 `json:"goroutines"` // maximum number
	Resident   float64 `json:"resident_mib"`
	Heap       float64 `json:"heap_mib"`
	Requests   float64 `json:"requests"`
	Tokens     float64 `json:"tokens"`
}

// did counts an action.
func (s *soak) did(what string) {
	n, _ := s.counts.LoadOrStore(what, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

// problem records a problem. Only the first 20 are kept.
func (s *soak) problem(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.Problems) < 20 {
		s.Problems = append(s.Problems, fmt.Sprintf(format, args...))
	}
}

// life returns the running server, or nil if there is none, and the time of its start.
func (s *soak) life() (*server, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.since
}

func (s *soak) setLife(r *server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.since = r, time.Now()
}

func (s *soak) run(ctx context.Context) (err error) {
	s.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: s.clients}, Timeout: 2 * time.Minute}
	s.stored, s.alone = map[string]string{}, map[string]string{}
	if s.log, err = os.CreateTemp("", "soak-*.log"); err != nil {
		return err
	}
	defer s.log.Close()
	for _, to := range []*string{&s.address, &s.adminAddress} {
		if *to, err = freeAddress(); err != nil {
			return err
		}
	}
	first, err := s.start(ctx)
	if err != nil {
		return err
	}
	s.setLife(first)
	defer func() {
		if r, _ := s.life(); r != nil {
			r.kill()
		}
	}()
	if err := s.learn(ctx); err != nil {
		return fmt.Errorf("replies alone: %w", err)
	}
	begun := time.Now()
	working, cancel := context.WithTimeout(ctx, s.time)
	defer cancel()
	var all sync.WaitGroup
	for i := range s.clients {
		all.Go(func() { s.client(working, rand.New(rand.NewPCG(uint64(i), 1))) })
	}
	err = s.lives(working)
	all.Wait()
	if err != nil {
		return err
	}
	s.Seconds, s.Clients, s.Did = time.Since(begun).Seconds(), s.clients, map[string]int64{}
	s.counts.Range(func(name, n any) bool {
		s.Did[name.(string)] = n.(*atomic.Int64).Load()
		return true
	})
	s.wantStored(ctx)
	s.wantSessions(ctx)
	s.Stored = len(s.stored)
	return s.rest()
}

// lives watches the server, and kills and restarts it again and again, until ctx is done.
func (s *soak) lives(ctx context.Context) error {
	for {
		run, since := s.life()
		end := time.NewTimer(cmp.Or(s.kill, time.Minute))
		var l life
		for alive := true; alive; {
			if f, err := run.figures(); err == nil {
				l.add(f, since)
			} else if ctx.Err() == nil {
				s.problem("the server does not tell its figures: %v", err)
			}
			select {
			case <-ctx.Done():
				s.Lives = append(s.Lives, l)
				return nil
			case <-run.ended:
				return fmt.Errorf("the server has ended by itself: %v; see %s", run.cmd.ProcessState, s.log.Name())
			case <-end.C:
				alive = false
			case <-time.After(2 * time.Second):
			}
		}
		s.Lives = append(s.Lives, l)
		if s.kill == 0 {
			continue
		}
		s.setLife(nil)
		run.kill()
		s.Kills++
		next, err := s.start(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		s.setLife(next)
		s.wantStored(ctx)
		s.wantSessions(ctx)
	}
}

// add adds the figures of a moment.
func (l *life) add(f map[string]float64, since time.Time) {
	const mib = 1 << 20
	l.Seconds = time.Since(since).Seconds()
	l.Goroutines = max(l.Goroutines, f["go_goroutines"])
	l.Resident = max(l.Resident, f["process_resident_memory_bytes"]/mib)
	l.Heap = max(l.Heap, f["go_memstats_heap_inuse_bytes"]/mib)
	l.Requests, l.Tokens = f["hippo_requests_total"], f["hippo_tokens_total"]
}

// rest waits until the server has finished all work for the clients, and ends the server.
func (s *soak) rest() error {
	run, since := s.life()
	s.http.CloseIdleConnections()
	http.DefaultClient.CloseIdleConnections()
	const calm = 40 // more goroutines than an idle server has
	for range 60 {
		f, err := run.figures()
		if err != nil {
			return err
		}
		s.Rest = life{}
		s.Rest.add(f, since)
		if f["go_goroutines"] <= calm && f["hippo_requests_running"] == 0 {
			break
		}
		time.Sleep(time.Second)
	}
	if s.Rest.Goroutines > calm {
		s.problem("%v goroutines are left a minute after the last client, want at most %d", s.Rest.Goroutines, calm)
	}
	s.setLife(nil)
	return run.stop(time.Minute)
}

// growth returns a problem if the last life took more memory or goroutines than earlier ones.
func (s *soak) growth() (problems []string) {
	if len(s.Lives) < 3 {
		return nil
	}
	const more = 1.5
	early, late := s.Lives[0], s.Lives[len(s.Lives)-1]
	for i, l := range s.Lives[:len(s.Lives)-1] {
		if i < (len(s.Lives)+1)/2 {
			early.Resident, early.Goroutines = max(early.Resident, l.Resident), max(early.Goroutines, l.Goroutines)
		}
	}
	if late.Resident > more*early.Resident || late.Goroutines > more*early.Goroutines+float64(s.clients) {
		problems = append(problems, fmt.Sprintf(
			"the last life took %.0f MiB and %v goroutines, those before %.0f and %v",
			late.Resident, late.Goroutines, early.Resident, early.Goroutines,
		))
	}
	return problems
}
