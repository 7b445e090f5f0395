package cluster

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"
)

// Local is a network of members in one process, with a simulated clock: the next event runs at once, and the clock
// jumps to its time. It is for tests of delays, silence, killed members and the volume of messages.
type Local struct {
	// Delay returns how long a message is on its way. If it is nil, messages take no time.
	Delay func(from, to ID) time.Duration
	// Before, if not nil, is called before message n is delivered, counted from 1. It may kill and stop members.
	Before func(n int)

	mu     sync.Mutex
	wake   *sync.Cond
	now    time.Duration // since the start
	events events
	wires  map[ID]*localWire
	next   ID
	order  int
	count  int // messages delivered
	closed bool
	last   map[[2]ID]time.Duration
	bytes  int
}

// event is a function that runs at a time.
type event struct {
	at      time.Duration
	order   int
	message bool // do delivers a message
	do      func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

// NewLocal starts a network. Close ends it.
func NewLocal() *Local {
	n := &Local{wires: map[ID]*localWire{}, last: map[[2]ID]time.Duration{}}
	n.wake = sync.NewCond(&n.mu)
	go n.run()
	return n
}

// run runs the events in order until the network is closed.
func (n *Local) run() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		for len(n.events) == 0 && !n.closed {
			n.wake.Wait()
		}
		if n.closed {
			return
		}
		e := heap.Pop(&n.events).(event)
		n.now = max(n.now, e.at)
		if before := n.Before; before != nil && e.message {
			n.count++
			count := n.count
			n.mu.Unlock()
			before(count)
			n.mu.Lock()
		}
		e.do()
	}
}

// at schedules do at a time. mu must be held.
func (n *Local) at(at time.Duration, do func()) { n.add(event{at: at, do: do}) }

func (n *Local) add(e event) {
	n.order++
	e.order = n.order
	heap.Push(&n.events, e)
	n.wake.Signal()
}

// Now returns the time of the simulated clock.
func (n *Local) Now() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Unix(0, 0).Add(n.now)
}

// Bytes returns the number of bytes in the values and bodies sent so far.
func (n *Local) Bytes() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.bytes
}

// Close ends the network.
func (n *Local) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	n.wake.Signal()
	for _, w := range n.wires {
		w.close()
	}
}

// Wire adds a member and returns its wire. The first member is the leader.
func (n *Local) Wire(g Greeting) Wire {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := &localWire{net: n, id: n.next, patience: leastPatience}
	w.box.init()
	n.wires[w.id] = w
	n.next++
	switch {
	case w.id == Lead:
	case n.wires[Lead] == nil:
		w.box.put(Message{From: Lead, Kind: Gone, Body: []byte("it has ended")})
	default:
		n.post(w.id, Lead, Message{Kind: Hello, Body: asJSON(g)})
	}
	return w
}

// Kill kills a member: all its connections close.
func (n *Local) Kill(id ID) { n.gone(id, "connection closed") }

// Stop makes a member silent for a duration. The others lose it if that is longer than the leader's patience.
func (n *Local) Stop(id ID, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.wires[id]
	if w == nil {
		return
	}
	w.silent = max(w.silent, n.now+d)
	patience := w.patience
	if lead := n.wires[Lead]; lead != nil {
		patience = lead.patience
	}
	if d > patience {
		n.at(n.now+patience, func() { n.lose(id, "silent for "+patience.String()) })
	}
}

func (n *Local) gone(id ID, why string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lose(id, why)
}

// lose disconnects a member from all others. mu must be held.
func (n *Local) lose(id ID, why string) {
	w := n.wires[id]
	if w == nil {
		return
	}
	delete(n.wires, id)
	for to := range n.wires {
		n.post(id, to, Message{Kind: Gone, Body: []byte(why)})
	}
	n.at(max(n.now, n.last[[2]ID{Lead, id}], w.silent), func() {
		w.box.put(Message{From: Lead, Kind: Gone, Body: []byte(why)}) // after all messages from the leader
	})
}

// post sends a message. mu must be held.
func (n *Local) post(from, to ID, m Message) {
	m.From = from
	n.bytes += 4*len(m.Values) + len(m.Body)
	at := n.now
	if w := n.wires[from]; w != nil {
		at = max(at, w.silent)
	}
	if n.Delay != nil {
		at += n.Delay(from, to)
	}
	pair := [2]ID{from, to}
	at = max(at, n.last[pair])
	n.last[pair] = at
	w := n.wires[to]
	if w == nil {
		return
	}
	n.add(event{at: at, message: true, do: func() {
		if w.silent > n.now { // a silent member reads later
			n.at(w.silent, func() { w.box.put(m) })
			return
		}
		w.box.put(m)
	}})
}

// localWire is the Wire of one member.
type localWire struct {
	net      *Local
	id       ID
	box      mailbox
	silent   time.Duration // until this time
	patience time.Duration
}

var _ Wire = (*localWire)(nil)

func (w *localWire) Self() ID { return w.id }

func (w *localWire) Send(to ID, m Message) {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	if w.net.wires[w.id] == w && w.net.wires[to] != nil {
		w.net.post(w.id, to, m)
	}
}

func (w *localWire) Ready(ctx context.Context, _ ID) error { return ctx.Err() }

func (w *localWire) Receive(ctx context.Context) (Message, error) { return w.box.take(ctx) }

func (w *localWire) Poll() (Message, bool) { return w.box.poll() }

func (w *localWire) Know([]Member) {}

func (w *localWire) Drop(id ID, why string) { w.net.gone(id, why) }

func (w *localWire) Patience(d time.Duration) {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	w.patience = d
}

// Close ends the member. The others learn of it after its last messages.
func (w *localWire) Close() error {
	w.net.gone(w.id, "it has ended")
	return nil
}

func (w *localWire) close() { w.box.close(errors.New("the network is closed")) }
