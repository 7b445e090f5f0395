package sample

import (
	"errors"
	"slices"
)

// A StopMatcher passes on a stream of text until one of its stop strings occurs. It holds back text that may be the
// beginning of a stop string, so that no part of a stop string is ever passed on.
//
// The text ends before the stop string that completes first; if several complete at the same byte, before the longest.
// The result does not depend on how the stream is split into pieces. Text is bytes; a piece may end inside a UTF-8
// character.
type StopMatcher struct {
	stops []automaton
	held  []byte // end of the text so far that may be the beginning of a stop string
	out   []byte // reused from call to call
	found string
}

// An automaton finds one stop string (Knuth, Morris, Pratt 1977).
type automaton struct {
	stop    string
	border  []int // border[n]: length of the longest proper prefix of stop[:n] that is also its suffix
	matched int   // length of the longest prefix of stop with which the text so far ends
}

// NewStopMatcher returns a matcher for the stop strings, which must not be empty. Without stop strings it passes
// everything on.
func NewStopMatcher(stops ...string) (*StopMatcher, error) {
	if slices.Contains(stops, "") {
		return nil, errors.New("stop strings: found an empty one, want text")
	}
	m := &StopMatcher{}
	for _, s := range stops {
		m.stops = append(m.stops, newAutomaton(s))
	}
	return m, nil
}

func newAutomaton(stop string) automaton {
	a := automaton{stop: stop, border: make([]int, len(stop)+1)}
	for n := 1; n < len(stop); n++ {
		a.step(stop[n])
		a.border[n+1] = a.matched
	}
	a.matched = 0
	return a
}

// step processes one byte of text. It must not be called after all of stop has been matched.
func (a *automaton) step(b byte) {
	n := a.matched
	for n > 0 && a.stop[n] != b {
		n = a.border[n]
	}
	if a.stop[n] == b {
		n++
	}
	a.matched = n
}

// Push adds the next piece of text. It returns the text that can be passed on, and reports whether a stop string has
// been found. After a stop string it returns no text. out is valid until the next call.
func (m *StopMatcher) Push(text []byte) (out []byte, stopped bool) {
	m.out = m.out[:0]
	for _, b := range text {
		if m.found != "" {
			break
		}
		m.held = append(m.held, b)
		hold := 0
		for i := range m.stops {
			a := &m.stops[i]
			a.step(b)
			hold = max(hold, a.matched)
			if a.matched == len(a.stop) && len(a.stop) > len(m.found) {
				m.found = a.stop
			}
		}
		if m.found != "" {
			m.release(len(m.found))
			m.held = m.held[:0]
		} else {
			m.release(hold)
		}
	}
	return m.out, m.found != ""
}

// release moves all but the last keep held bytes to out.
func (m *StopMatcher) release(keep int) {
	n := len(m.held) - keep
	m.out = append(m.out, m.held[:n]...)
	m.held = append(m.held[:0], m.held[n:]...)
}

// Flush returns the text that is still held back, at the end of a text without a stop string. out is valid until the
// next call.
func (m *StopMatcher) Flush() (out []byte) {
	m.out = m.out[:0]
	m.release(0)
	return m.out
}

// Held returns a copy of the text that is held back. A new matcher with the same stop strings continues like this one
// after this text is pushed to it.
func (m *StopMatcher) Held() []byte { return slices.Clone(m.held) }

// Stop returns the stop string that was found, or "".
func (m *StopMatcher) Stop() string { return m.found }
