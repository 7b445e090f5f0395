package session

import (
	"cmp"
	"slices"
)

// share decides who takes part in a step. Clients have equal parts of what there is, in rows, as long as they want
// them: who has read least goes first. The requests of one client go by priority and then by age.
type share struct {
	running int // requests of a step at most
	rows    int // rows of a step, from where on it takes no more than one piece of a prompt

	clients map[string]*client
	active  []*client // those with requests
	floor   int64     // where a client starts that comes now
	arrived uint64

	live   []*client // memory of choose
	chosen []*task
	pieces []*task
}

// client is everyone who is counted as one.
type client struct {
	name    string
	number  uint64
	tasks   []*task // by priority, then by age
	ready   int     // of them
	used    int64   // rows that it has had, counted from the same place as those of all others
	next    int     // while a step is chosen: its tasks before this one have been looked at
	planned int64   // while a step is chosen: its rows
}

func newShare(o SchedulerOptions) share {
	return share{running: o.Running, rows: o.Rows, clients: map[string]*client{}}
}

// add lets t take part.
func (s *share) add(t *task) {
	c := s.clients[t.r.Client]
	if c == nil {
		c = &client{name: t.r.Client, number: s.arrived}
		s.clients[c.name] = c
	}
	if len(c.tasks) == 0 {
		c.used = max(c.used, s.floor) // it saves up nothing while it is away
		s.active = append(s.active, c)
	}
	t.client, t.number = c, s.arrived
	s.arrived++
	at, _ := slices.BinarySearchFunc(c.tasks, t, byRank)
	c.tasks = slices.Insert(c.tasks, at, t)
}

// remove ends the part of t.
func (s *share) remove(t *task) {
	c := t.client
	t.set(away)
	at, _ := slices.BinarySearchFunc(c.tasks, t, byRank)
	c.tasks = slices.Delete(c.tasks, at, at+1)
	if len(c.tasks) == 0 {
		s.active = slices.DeleteFunc(s.active, func(a *client) bool { return a == c })
	}
	if len(s.active) == 0 { // they are all even
		clear(s.clients)
		s.floor = 0
	}
}

// byRank is the order of the requests of a client.
func byRank(a, b *task) int {
	return cmp.Or(cmp.Compare(b.r.Priority, a.r.Priority), cmp.Compare(a.number, b.number))
}

// choose returns the requests that take part in the next step. They are the memory of s until the next call.
func (s *share) choose() []*task {
	s.seat()
	if len(s.chosen) == 0 {
		return nil
	}
	// What is one row joins every step. It hardly costs more than to read the weights for the others.
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
	}
	s.charge()
	return step
}

// seat sets s.chosen to the requests among which a step is made: as many as may run, the highest priority first, and
// of one priority one of each client after another.
func (s *share) seat() {
	slices.SortFunc(s.active, func(a, b *client) int {
		return cmp.Or(cmp.Compare(a.used, b.used), cmp.Compare(a.number, b.number))
	})
	s.live, s.chosen = append(s.live[:0], s.active...), s.chosen[:0]
	for _, c := range s.live {
		c.next, c.planned = 0, 0
	}
	for len(s.chosen) < s.running {
		top, waits := 0, s.live[:0]
		for _, c := range s.live {
			if t := c.peek(); t != nil {
				if len(waits) == 0 || t.r.Priority > top {
					top = t.r.Priority
				}
				waits = append(waits, c)
			}
		}
		if s.live = waits; len(waits) == 0 {
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

// peek is the client's next request that is ready, nil if there is none.
func (c *client) peek() *task {
	for ; c.next < len(c.tasks); c.next++ {
		if t := c.tasks[c.next]; t.place == ready {
			return t
		}
	}
	return nil
}

// charge counts the rows of a step. A client that got all that it could take has no claim to more of a later step: it
// is put level with those that had to wait, or with the others where no one had to.
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
