package session

import (
	"sync"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/engine"
)

// beginWith waits until n requests wait for their first step, and then starts the scheduler.
func (s *Scheduler) beginWith(n int) {
	s.patience = time.Hour // the counts of a test must not depend on the speed of the machine
	s.wait(n)
	go s.loop()
}

// TestLongPromptsHoldUpByOnePiece checks that a writing request gets a token in every step while others read long
// prompts, and that a step has at most one piece of each prompt.
func TestLongPromptsHoldUpByOnePiece(t *testing.T) {
	m := servedModel(t, servedMix, engine.Float32)
	const pieces, tokens = 30, 20
	for _, prompts := range []int{1, 4} {
		s := newScheduler(m, SchedulerOptions{Rows: servedChunk})
		var all sync.WaitGroup
		read := make([]int, prompts) // ids read of each prompt
		var mu sync.Mutex
		for i := range prompts {
			all.Go(func() {
				w := wish{segments: []Segment{{IDs: make([]int32, pieces*servedChunk)}}}
				r := w.request(m, new(served))
				r.Progress = func(n, _ int) {
					mu.Lock()
					defer mu.Unlock()
					if n != read[i]+servedChunk {
						t.Errorf("prompt %d went from %d to %d in a step", i, read[i], n)
					}
					read[i] = n
				}
				if err := s.Run(t.Context(), r); err != nil {
					t.Error(err)
				}
			})
		}
		all.Go(func() {
			var out served
			w := wish{segments: []Segment{{IDs: []int32{1}}}, draws: tokens}
			r, steps := w.request(m, &out), []int64(nil)
			next := r.Next
			r.Next = func(logits []float32) (int32, bool, error) {
				steps = append(steps, s.Stats().Steps)
				return next(logits)
			}
			if err := s.Run(t.Context(), r); err != nil {
				t.Error(err)
			}
			for i, at := range steps {
				if at != steps[0]+int64(i) {
					t.Errorf("token %d came in step %d, the first in step %d", i, at, steps[0])
				}
			}
		})
		s.beginWith(prompts + 1)
		all.Wait()
		s.Close()
		rows := s.Stats().Rows
		for i, n := range rows.Counts {
			if n > 0 && i > 0 && rows.Bounds[i-1] >= 2*servedChunk {
				t.Errorf("%d steps have more than a piece of a prompt beside the writer", n)
			}
		}
	}
}

// TestClientsShareTokens checks that a client with ten long prompts gets at most half of the tokens if another client
// has one.
func TestClientsShareTokens(t *testing.T) {
	m := servedModel(t, servedMix, engine.Float32)
	const pieces = 20
	s := newScheduler(m, SchedulerOptions{Rows: servedChunk})
	var all sync.WaitGroup
	var mu sync.Mutex
	read := map[string]int{}
	last := map[*Request]int{}
	prompt := func(client string) {
		all.Go(func() {
			w := wish{segments: []Segment{{IDs: make([]int32, pieces*servedChunk)}}}
			r := w.request(m, new(served))
			r.Client = client
			r.Progress = func(n, total int) {
				mu.Lock()
				defer mu.Unlock()
				read[client] += n - last[r]
				last[r] = n
				if a, b := read["many"], read["one"]; n == total && client == "one" && a > b+2*servedChunk {
					t.Errorf("when the prompt of one client was read it had %d tokens, that with ten prompts %d", b, a)
				}
			}
			if err := s.Run(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
	for range 10 {
		prompt("many")
	}
	prompt("one")
	s.beginWith(11)
	all.Wait()
	s.Close()
	if stats := s.Stats(); stats.Read != 11*pieces*servedChunk || stats.Steps < 11*pieces || stats.Ended != 11 ||
		stats.Failed != 0 || stats.Running+stats.Waiting+stats.Clients != 0 {
		t.Errorf("statistics %+v", stats)
	}
}
