package session

import (
	"cmp"
	"slices"
)

// share chooses the requests of each step. Clients that have requests get equal shares of the rows: the client that has
// read the least is first. Requests of one client are ordered by priority, rank and age.
type share struct {
	running int // maximum number of requests in a step
	rows    int // maximum number of rows of a step, except that its first piece of a prompt may exceed it

	clients map[string]*client
	active  []*client // clients with requests
	floor   int64     // minimum of used for a client that arrives now
	arrived uint64

	candidates []*client // scratch memory of choose
	chosen     []*task
	pieces     []*task
}

// client holds the requests of one client and its use of the steps.
type client struct {
	name    string
	number  uint64
	tasks   []*task // by priority, rank and age
	ready   int     // tasks that are ready
	used    int64   // rows used, raised as add and charge describe
	next    int     // index of the next task to consider while a step is chosen
	planned int64   // rows planned while a step is chosen
}

func newShare(o SchedulerOptions) share {
	return share{running: o.Running, rows: o.Rows, clients: map[string]*client{}}
}

// add adds the task t.
func (s *share) add(t *task) {
	c := s.clients[t.r.Client]
	if c == nil {
		c = &client{name: t.r.Client, number: s.arrived}
		s.clients[c.name] = c
	}
	if len(c.tasks) == 0 {
		c.used = max(c.used, s.floor) // an idle client does not accumulate a claim
		s.active = append(s.active, c)
	}
	t.client, t.number = c, s.arrived
	s.arrived++
	at, _ := slices.BinarySearchFunc(c.tasks, t, byRank)
	c.tasks = slices.Insert(c.tasks, at, t)
}

// remove removes the task t.
func (s *share) remove(t *task) {
	c := t.client
	t.set(away)
	at, _ := slices.BinarySearchFunc(c.tasks, t, byRank)
	c.tasks = slices.Delete(c.tasks, at, at+1)
	if len(c.tasks) == 0 {
		s.active = slices.DeleteFunc(s.active, func(a *client) bool { return a == c })
	}
	if len(s.active) == 0 { // all shares are equal
		clear(s.clients)
		s.floor = 0
	}
}

// byRank orders the requests of a client.
func byRank(a, b *task) int {
	return cmp.Or(cmp.Compare(b.r.Priority, a.r.Priority), cmp.Compare(a.r.Rank, b.r.Rank),
		cmp.Compare(a.number, b.number))
}

// guessRows is the maximum number of rows of a step with guessed ids. More rows take more time, so guesses would no
// longer be free.
const guessRows = 16

// choose returns the requests of the next step. They are valid until the next call.
func (s *share) choose() []*task {
	s.seat()
	if len(s.chosen) == 0 {
		return nil
	}
	// A single row joins every step: it adds little to reading the weights for the others.
	step, rows, top := s.chosen[:0], 0, s.chosen[0].r.Priority
	s.pieces = s.pieces[:0]
	for _, t := range s.chosen {
		switch n := t.rows(); {
		case n == 1:
			step, rows = append(step, t), rows+1
			t.client.planned++
		case t.r.Priority == top:
			s.pieces = append(s.pieces, t)
		}
	}
	for first := true; len(s.pieces) > 0; first = false {
		at := 0
		for i, t := range s.pieces {
			if a, b := t.client, s.pieces[at].client; a.used+a.planned < b.used+b.planned {
				at = i
			}
		}
		t := s.pieces[at]
		n := t.rows()
		if !first && rows+n > s.rows {
			break
		}
		step, rows = append(step, t), rows+n
		t.client.planned += int64(n)
		s.pieces = slices.Delete(s.pieces, at, at+1)
	}
	for _, t := range step {
		t.set(stepping)
		if t.guesses = 0; t.writes && rows < guessRows {
			t.guesses = min(len(t.drawn)-1, guessRows-rows)
			rows += t.guesses
			t.client.planned += int64(t.guesses)
		}
	}
	s.charge()
	return step
}

// seat sets s.chosen to the candidates for a step: as many requests as may run, by priority, and in turn by client
// within one priority.
func (s *share) seat() {
	slices.SortFunc(s.active, func(a, b *client) int {
		return cmp.Or(cmp.Compare(a.used, b.used), cmp.Compare(a.number, b.number))
	})
	s.candidates, s.chosen = append(s.candidates[:0], s.active...), s.chosen[:0]
	for _, c := range s.candidates {
		c.next, c.planned = 0, 0
	}
	for len(s.chosen) < s.running {
		top, waits := 0, s.candidates[:0]
		for _, c := range s.candidates {
			if t := c.peek(); t != nil {
				if len(waits) == 0 || t.r.Priority > top {
					top = t.r.Priority
				}
				waits = append(waits, c)
			}
		}
		if s.candidates = waits; len(waits) == 0 {
			return
		}
		for _, c := range waits {
			if t := c.tasks[c.next]; t.r.Priority == top && len(s.chosen) < s.running {
				s.chosen = append(s.chosen, t)
				c.next++
			}
		}
	}
}

// peek returns the client's next ready request, or nil.
func (c *client) peek() *task {
	for ; c.next < len(c.tasks); c.next++ {
		if t := c.tasks[c.next]; t.place == ready {
			return t
		}
	}
	return nil
}

// charge counts the rows of a step. A client that received all it could take has no claim on later steps: its count is
// raised to the lowest count of the clients that still wait or, if none waits, to the highest count of all clients.
func (s *share) charge() {
	held, least, most := false, int64(0), int64(0)
	for _, c := range s.active {
		c.used += c.planned
		most = max(most, c.used)
		if c.ready > 0 && (!held || c.used < least) {
			held, least = true, c.used
		}
	}
	if s.floor = most; held {
		s.floor = least
	}
	for _, c := range s.active {
		c.used = max(c.used, s.floor)
	}
	if len(s.clients) > len(s.active) {
		for name, c := range s.clients {
			if len(c.tasks) == 0 && c.used <= s.floor {
				delete(s.clients, name)
			}
		}
	}
}
