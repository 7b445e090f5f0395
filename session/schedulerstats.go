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

	Ended   int // requests that are over
	Failed  int // of these, with an error, canceled or panicked
	Refused int // requests that found it busy

	Steps int64
	Read  int64 // ids of prompts
	Drawn int64 // ids that were sampled and read

	Sequences  Histogram // of a step
	Rows       Histogram // ids that a step reads
	FirstToken Histogram // seconds from Run to the first logits to sample from
	NextToken  Histogram // seconds from logits to sample from to the next, sampling included
}

// Histogram counts values by size: Counts[i] are those up to Bounds[i] and above the bound before, the last those above
// all bounds.
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

// count counts what t has read in a step that has ended now.
func (s *SchedulerStats) count(t *task, now time.Time) {
	h := &s.FirstToken
	if t.writes {
		h = &s.NextToken
		s.Drawn++
	} else {
		s.Read += int64(t.size)
	}
	if t.r.Next != nil && t.read+t.size >= t.total {
		h.add(now.Sub(t.since).Seconds())
		t.since = now
	}
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
