package model

import (
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/tensor"
)

// Stream runs a network over one sequence as it arrives, position by position or in chunks. Its outputs equal those for
// the whole sequence. Its memory grows only if the states of the mixers do. A Stream is for one goroutine; a network
// may have many streams.
type Stream struct {
	m     *Network
	tape  *autograd.Tape
	state *State
	rows  Rows
	sum   []float32 // sum of the hidden states so far, for the pool "mean"
	row   []float32
	out   []float32
}

// NewStream returns a stream before its first position. It returns an error if the network needs to see the end of a
// sequence first.
func (m *Network) NewStream() (*Stream, error) {
	switch {
	case m.LooksAhead():
		return nil, fmt.Errorf("found layers that look ahead, want a causal network to go through a stream")
	case m.Config.Pairs:
		return nil, fmt.Errorf("found a network over pairs of sequences, " +
			"want one over single sequences to go through a stream")
	}
	d := m.Config.Model.DModel
	return &Stream{m: m, tape: m.NewTape(), state: m.NewState(), sum: make([]float32, d),
		row: make([]float32, d)}, nil
}

// Position returns the number of positions seen.
func (s *Stream) Position() int { return s.state.Position }

// State returns the state of the mixers. Changing it changes later outputs.
func (s *Stream) State() *State { return s.state }

// Tokens advances by tokens. It returns outputs in the same form as Values.
func (s *Stream) Tokens(ids ...int32) ([]float32, error) {
	vocab := int32(s.m.Config.Vocab)
	if vocab == 0 {
		return nil, fmt.Errorf("found tokens, want rows of %d numbers", s.m.Config.Channels)
	}
	for _, id := range ids {
		if id < 0 || id >= vocab {
			return nil, fmt.Errorf("found token %d, want 0 to %d", id, vocab-1)
		}
	}
	return s.step(Input{Tokens: ids}, len(ids))
}

// Values advances by rows of numbers. It returns the outputs at each of these positions or, for one output per
// sequence, the output for the sequence up to the last of them. The next call reuses the returned memory.
func (s *Stream) Values(rows ...float32) ([]float32, error) {
	channels := s.m.Config.Channels
	if channels == 0 || len(rows)%channels != 0 {
		return nil, fmt.Errorf("found %d numbers, want rows of %d", len(rows), channels)
	}
	return s.step(Input{Values: rows}, len(rows)/channels)
}

// step advances by l positions.
func (s *Stream) step(in Input, l int) ([]float32, error) {
	if l == 0 {
		return nil, fmt.Errorf("found nothing, want at least one position")
	}
	if most := s.m.MaxLength(); most > 0 && s.state.Position+l > most {
		return nil, fmt.Errorf("found position %d, but the network takes at most %d", s.state.Position+l, most)
	}
	t := s.tape
	t.Reset()
	s.rows.Clear()
	s.rows.Add(l, s.state)
	hidden, _ := s.m.hidden(t, in, &s.rows)
	if !s.m.Config.Everywhere {
		hidden = s.pool(hidden)
	}
	y := s.m.output(t, hidden)
	if y.Len() > cap(s.out) {
		s.out = make([]float32, y.Len())
	}
	s.out = s.out[:y.Len()]
	y.CopyTo(s.out)
	return s.out, nil
}

// pool returns the pooled vector of the sequence so far: (1, d).
func (s *Stream) pool(hidden *tensor.Tensor) *tensor.Tensor {
	if s.m.Config.Pool != "mean" {
		return s.tape.Last(hidden, &s.rows.at)
	}
	l, mean := hidden.Dim(0), s.tape.MeanPositions(hidden, &s.rows.at)
	mean.CopyTo(s.row)
	n := float32(s.state.Position)
	for i, v := range s.row {
		s.sum[i] += v * float32(l)
		s.row[i] = s.sum[i] / n
	}
	mean.CopyFrom(s.row)
	return mean
}
