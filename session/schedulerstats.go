package session

import (
	"slices"
	"time"
)

// SchedulerStats holds the measurements of a Scheduler. They count from its start, except those marked "now".
type SchedulerStats struct {
	Running int // now: requests that are in a step or process its logits
	Waiting int // now: requests that wait for a step
	Clients int // now: clients that have requests

	Ended   int // finished requests
	Failed  int // of these, with an error, including canceled and panicked ones
	Refused int // requests refused with ErrBusy

	Steps int64
	Read  int64 // ids of prompts
	Drawn int64 // ids that were sampled and read

	Drafted  int64 // ids that were guessed and read
	Accepted int64 // of these, ids that were then sampled

	Sequences  Histogram // per step
	Rows       Histogram // ids per step
	FirstToken Histogram // seconds from Run to the first logits
	NextToken  Histogram // seconds from the logits of one token to those of the next, including the sampling
}

// Histogram counts values by size. Counts[i] is the number of values that are at most Bounds[i] and above Bounds[i-1].
// The last count is that of the values above all bounds.
type Histogram struct {
	Bounds []float64
	Counts []int64
	Sum    float64
}

// newHistogram returns a histogram with n bounds. The first is least, and each other one is twice the one before.
func newHistogram(least float64, n int) Histogram {
	h := Histogram{Counts: make([]int64, n+1)}
	for range n {
		h.Bounds = append(h.Bounds, least)
		least *= 2
	}
	return h
}

// add counts a value.
func (h *Histogram) add(x float64) {
	i, _ := slices.BinarySearch(h.Bounds, x)
	h.Counts[i]++
	h.Sum += x
}

func newStats() SchedulerStats {
	return SchedulerStats{
		Sequences: newHistogram(1, 12), Rows: newHistogram(1, 14),
		FirstToken: newHistogram(0.001, 18), NextToken: newHistogram(0.0005, 16),
	}
}

// step counts a step.
func (s *SchedulerStats) step(sequences, rows int) {
	s.Steps++
	s.Sequences.add(float64(sequences))
	s.Rows.add(float64(rows))
}

// count counts the ids that t read in the step that has just ended.
func (s *SchedulerStats) count(t *task, now time.Time) {
	if t.writes {
		s.Drafted += int64(t.guesses)
		s.drawn(t, now)
		return
	}
	s.Read += int64(t.size)
	if t.r.Next != nil && t.read+t.size >= t.total {
		s.FirstToken.add(now.Sub(t.since).Seconds())
		t.since = now
	}
}

// drawn counts an id of t that was sampled and read.
func (s *SchedulerStats) drawn(t *task, now time.Time) {
	s.Drawn++
	s.NextToken.add(now.Sub(t.since).Seconds())
	t.since = now
}

// copied returns a copy of the measurements, with the counts of the current requests.
func (s *SchedulerStats) copied(active []*client, tasks int) SchedulerStats {
	c := *s
	for _, h := range []*Histogram{&c.Sequences, &c.Rows, &c.FirstToken, &c.NextToken} {
		h.Counts = slices.Clone(h.Counts)
	}
	for _, client := range active {
		c.Waiting += client.ready
	}
	c.Clients, c.Running = len(active), tasks-c.Waiting
	return c
}
