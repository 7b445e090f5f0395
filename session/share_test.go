package session

import (
	"fmt"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
)

// shared is a share whose steps the test runs.
type shared struct {
	share
	rows map[string]int // rows that each client has received
	t    *testing.T
}

func newShared(t *testing.T, running, rows int) *shared {
	return &shared{share: newShare(SchedulerOptions{Running: running, Rows: rows}), rows: map[string]int{}, t: t}
}

// wants adds a request that never ends. It either writes or reads a prompt.
func (s *shared) wants(client string, priority int, writes bool) *task {
	session := generate.NewBatch(servedModel(s.t, "h3", engine.Float32), 1)
	session.Chunk = servedChunk
	t := &task{r: &Request{Session: session, Client: client, Priority: priority,
		Segments: []Segment{{IDs: make([]int32, 1<<20)}}}, writes: writes, drawn: make([]int32, 1)}
	s.add(t)
	t.set(ready)
	return t
}

// step runs a step and returns the tasks in it.
func (s *shared) step() map[*task]bool {
	in := map[*task]bool{}
	for _, t := range s.choose() {
		in[t] = true
		s.rows[t.client.name] += t.rows()
		t.set(ready)
	}
	return in
}

// TestClientsTakeTurns checks that all clients get equally many tokens, however many requests each has, if a step has
// no room for all of them.
func TestClientsTakeTurns(t *testing.T) {
	const clients, running, steps = 10, 4, 500
	s := newShared(t, running, 100)
	for i := range clients {
		for range 1 + 3*(i%3) {
			s.wants(fmt.Sprint(i), 0, true)
		}
	}
	for range steps {
		if n := len(s.step()); n != running {
			t.Fatalf("a step of %d, want %d", n, running)
		}
	}
	for name, n := range s.rows {
		if d := n - steps*running/clients; d < -1 || d > 1 {
			t.Errorf("client %s has had %d tokens, want %d", name, n, steps*running/clients)
		}
	}
}

// TestNobodySavesUp checks that a client that arrives late, was idle, or could not use its whole share gets no more
// than an equal share from then on.
func TestNobodySavesUp(t *testing.T) {
	s := newShared(t, 100, servedChunk)
	for range 5 {
		s.wants("always", 0, false)
	}
	writer := s.wants("writer", 0, true)
	was := s.wants("was there", 0, false)
	for range 3 {
		s.step()
	}
	s.remove(was)
	for range 100 {
		if !s.step()[writer] {
			t.Fatal("a step without who writes")
		}
	}
	clear(s.rows)
	s.wants("late", 0, false)
	s.wants("was there", 0, false)
	s.wants("writer", 0, false)
	for range 40 {
		s.step()
	}
	for name, n := range s.rows { // each of the 40 steps has a piece and a token
		if want := 90; n < want-2*servedChunk || n > want+2*servedChunk {
			t.Errorf("client %s has had %d tokens, want about %d", name, n, want)
		}
	}
}

// TestLargerPriorityComesFirst checks that the requests of the highest priority join a step first, that only their
// prompts are read, and that the oldest request of a client comes first.
func TestLargerPriorityComesFirst(t *testing.T) {
	s := newShared(t, 3, 2*servedChunk)
	background, old, young := s.wants("a", -1, false), s.wants("a", 0, true), s.wants("a", 0, true)
	if in := s.step(); !in[old] || !in[young] || in[background] {
		t.Error("a prompt of a smaller priority was read while others write")
	}
	urgent := s.wants("a", 1, false)
	other := s.wants("b", 0, true)
	for range 10 {
		if in := s.step(); !in[urgent] || !in[old] || !in[other] || len(in) != 3 {
			t.Errorf("a step of %d without who should be first", len(in))
		}
	}
	for _, x := range []*task{urgent, old, young, other} {
		s.remove(x)
	}
	if in := s.step(); !in[background] {
		t.Error("the only prompt is not read")
	}
	s.remove(background)
	if in := s.step(); len(in) > 0 || len(s.active) > 0 || len(s.clients) > 0 {
		t.Errorf("with no requests there are a step of %d, %d clients, %d of them active", len(in), len(s.clients),
			len(s.active))
	}
}

// TestRankIsWithinAClient checks that the request of the lowest rank is the first of its client, and that ranks do not
// affect other clients.
func TestRankIsWithinAClient(t *testing.T) {
	s := newShared(t, 2, 100)
	ranked := func(client string, rank int) *task {
		x := s.wants(client, 0, true)
		s.remove(x)
		x.r.Rank = rank
		s.add(x)
		x.set(ready)
		return x
	}
	late, early := ranked("greedy", 7), ranked("greedy", -1000)
	ranked("greedy", 0)
	other := ranked("other", 1000)
	for range 10 {
		if in := s.step(); !in[early] || !in[other] || len(in) != 2 {
			t.Fatalf("the step is %v, want the first of each client", in)
		}
	}
	if s.remove(early); !s.step()[other] {
		t.Error("the other client waits")
	}
	if s.step()[late] {
		t.Error("the last of a client is before another")
	}
}
