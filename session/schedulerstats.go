package session

import (
	"slices"
	"time"
)

// SchedulerStats are measurements of a Scheduler, counted from its start unless a comment says now.
type SchedulerStats struct {
	Running int // requests now in the step or with its logits
	Waiting int // requests now waiting for a step
	Clients int // with requests now

	Ended   int // finished requests
	Failed  int // of these, with an error: canceled or panicked too
	Refused int // requests that found it busy

	Steps int64
	Read  int64 // ids of prompts
	Drawn int64 // ids that were sampled and read

	Drafted  int64 // ids that were guessed and read
	Accepted int64 // of them, those that were then sampled

	Sequences  Histogram // per step
	Rows       Histogram // ids per step
	FirstToken Histogram // seconds from Run to the first logits
	NextToken  Histogram // seconds from one token's logits to the next token's, with the sampling
}

// Histogram counts values by size: Counts[i] counts those at most Bounds[i] and above the bound before, the last one
// those above all bounds.
type Histogram struct {
	Bounds []float64
	Counts []int64
	Sum    float64
}

// newHistogram returns a histogram with n bounds from least on, each twice the one before.
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

// count counts what t has read in the step that has just ended.
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

// copied returns a copy with the current counts.
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
