package cluster

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// MPI is a Wire that uses MPI messages between the processes of one launch. The rank of a process is its member ID.
// There is no key, as the launcher says who the members are. MPI cannot go on without one of its processes: if one is
// lost, the run ends, and whoever started it may start it again.
//
// One thread makes all calls of MPI. A frame is cut into packets of packetSize. For each other process, several
// receives are always posted and several sends may be in progress, so that large messages follow each other without a
// pause.
type MPI struct {
	calls mpiCalls
	id    ID
	peers []*peer // by rank, nil for this process
	box   mailbox
	wake  chan struct{} // buffered for one: a message is queued
	close sync.Once

	mu       sync.Mutex
	members  []Member
	held     []Message // messages from processes that are not members yet
	patience time.Duration
	closing  time.Time     // when Close was called
	dropped  map[ID]string // by Drop, since the last turn, with the reasons; nil for none
	finished chan struct{} // closed when Close may return
	aborts   chan int
	whole    bool // MPI has ended properly, as all processes said bye; read it when finished is closed
}

var _ Wire = (*MPI)(nil)

// mpiCalls are the calls of MPI that a wire makes. One thread makes all of them.
type mpiCalls interface {
	isend(b []byte, to int) (*mpiRequest, error)
	irecv(b []byte, from int) (*mpiRequest, error)
	test(r *mpiRequest) (done bool, err error)
	finalize() error
	abort(status int)
}

// mpiRequest is a send or receive in progress. MPI owns its memory until it is done.
type mpiRequest struct {
	packet []byte
	kept   any // data of the mpiCalls for this request
}

// How a wire waits when nothing moves: it tries again at once, then at longer and longer intervals. A message to send
// ends the wait.
const (
	mpiEager = 200 * time.Microsecond
	mpiCalm  = 10 * time.Millisecond
)

// newMPI starts a wire. It calls open to start MPI, on the thread that makes all other calls.
func newMPI(open func() (calls mpiCalls, rank, size int, err error), g Greeting) (*MPI, error) {
	w := &MPI{wake: make(chan struct{}, 1), patience: leastPatience, finished: make(chan struct{}),
		aborts: make(chan int)}
	w.box.init()
	opened := make(chan error)
	go func() {
		runtime.LockOSThread() // MPI belongs to this thread
		calls, rank, size, err := open()
		if err == nil {
			w.calls, w.id, w.peers = calls, ID(rank), make([]*peer, size)
			for i := range w.peers {
				if i != rank {
					w.peers[i] = &peer{id: ID(i), out: newOutbox(), sent: time.Now(), heard: time.Now()}
					w.peers[i].out.more = w.wake
				}
			}
		}
		opened <- err
		if err == nil {
			w.run()
		}
	}()
	if err := <-opened; err != nil {
		return nil, err
	}
	if w.id != Lead {
		w.Send(Lead, Message{Kind: Hello, Body: asJSON(g)})
	}
	return w, nil
}

// run makes all calls until the wire is closed.
func (w *MPI) run() {
	err := w.begin()
	moved := time.Now()
	for last := moved; err == nil; {
		now := time.Now()
		if now.Sub(last) > pingEvery { // this process was stopped, the others were not silent
			w.each(func(p *peer) { p.heard = now })
		}
		last = now
		var any, over bool
		if any, err = w.turn(now); err != nil {
			break
		}
		if over, err = w.over(now); over || err != nil {
			break
		}
		if any {
			moved = now
		}
		w.wait(now.Sub(moved))
	}
	if err != nil {
		w.box.close(fmt.Errorf("MPI: %w", err))
	}
	close(w.finished)
	if w.whole {
		runtime.UnlockOSThread() // or the thread would end, too
		return
	}
	w.calls.abort(<-w.aborts)
	w.aborts <- 0
}

func (w *MPI) each(do func(*peer)) {
	for _, p := range w.peers {
		if p != nil {
			do(p)
		}
	}
}

// begin posts the receives for the packets of all other processes.
func (w *MPI) begin() (err error) {
	w.each(func(p *peer) {
		for range mpiWindow {
			err = errors.Join(err, w.expect(p, make([]byte, packetSize)))
		}
	})
	return err
}

// turn receives and sends what it can without waiting. any reports whether there was anything.
func (w *MPI) turn(now time.Time) (any bool, err error) {
	w.mu.Lock()
	dropped, patience, closing := w.dropped, w.patience, !w.closing.IsZero()
	w.dropped = nil
	w.mu.Unlock()
	w.each(func(p *peer) {
		if err != nil {
			return
		}
		if why, ok := dropped[p.id]; ok {
			w.lose(p, why)
		}
		for done := true; done && err == nil; any = any || done {
			done, err = w.receive(p, now, closing)
		}
		for done := true; done && err == nil; any = any || done {
			done, err = w.send(p, now)
		}
		if p.id != Lead && w.id != Lead || p.ends || closing {
			return
		}
		if silent := now.Sub(p.heard); silent > patience {
			w.lose(p, fmt.Sprintf("silent for %.0f s", silent.Seconds()))
		}
		if now.Sub(p.sent) > pingEvery && len(p.sending) == 0 {
			p.out.put(Message{Kind: ping})
			p.sent = now
		}
	})
	return any, err
}

// wait pauses before the next turn. The longer nothing has moved, the longer it pauses.
func (w *MPI) wait(still time.Duration) {
	pause := time.Millisecond
	switch {
	case still < mpiEager:
		runtime.Gosched()
		return
	case still < mpiCalm:
		pause = 50 * time.Microsecond
	}
	select {
	case <-w.wake:
	case <-time.After(pause):
	}
}

// lose reports that a process is lost. At the leader, that ends the run.
func (w *MPI) lose(p *peer, why string) {
	if p.lost {
		return
	}
	p.lost = true
	if w.id != Lead {
		w.box.put(Message{From: p.id, Kind: Gone, Body: []byte(why)})
		return
	}
	name := fmt.Sprintf("process %d", p.id)
	w.mu.Lock()
	for _, m := range w.members {
		if m.ID == p.id {
			name = m.Name
		}
	}
	w.mu.Unlock()
	w.box.close(fmt.Errorf("%s: %s; MPI does not go on without a process", name, why))
}

// over reports whether the wire has closed. It ends MPI if all processes have said that they send nothing more.
func (w *MPI) over(now time.Time) (bool, error) {
	w.mu.Lock()
	since, patience := w.closing, w.patience
	w.mu.Unlock()
	if since.IsZero() {
		return false, nil
	}
	ended, flushed := true, true
	w.each(func(p *peer) {
		if p.lost && !p.ends {
			patience = min(patience, flushTime)
		}
		ended = ended && p.ends && len(p.receives) == 0
		flushed = flushed && len(p.sending) == 0 && len(p.left) == 0 && p.out.empty()
	})
	if ended && flushed {
		err := w.calls.finalize()
		w.whole = err == nil
		return true, err
	}
	return now.Sub(since) > patience, nil
}

// Self returns the rank of the process.
func (w *MPI) Self() ID { return w.id }

// peer returns another process, or nil if there is none with this ID.
func (w *MPI) peer(id ID) *peer {
	if id < 0 || int(id) >= len(w.peers) {
		return nil
	}
	return w.peers[id]
}

// Send queues a message.
func (w *MPI) Send(to ID, m Message) {
	if p := w.peer(to); p != nil {
		p.out.put(m)
	}
}

// Ready waits until the queue of messages to a process is short.
func (w *MPI) Ready(ctx context.Context, to ID) error {
	if p := w.peer(to); p != nil {
		return p.out.ready(ctx)
	}
	return ctx.Err()
}

// Receive returns the next message. If a process is lost, the error says which.
func (w *MPI) Receive(ctx context.Context) (Message, error) { return w.box.take(ctx) }

// Poll returns the next message if there is one, without waiting.
func (w *MPI) Poll() (Message, bool) { return w.box.poll() }

// Know sets the members, and delivers the messages that they have sent before.
func (w *MPI) Know(members []Member) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members = members
	w.held = slices.DeleteFunc(w.held, func(m Message) bool {
		known := w.known(m.From)
		if known {
			w.box.put(m)
		}
		return known
	})
}

// Drop declares a process lost. At the leader, that ends the run.
func (w *MPI) Drop(id ID, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dropped == nil {
		w.dropped = map[ID]string{}
	}
	w.dropped[id] = why
	signal(w.wake)
}

// Patience sets how long a process may be silent.
func (w *MPI) Patience(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.patience = d
}

// Close tells all processes that this one ends, and waits until all have said so. Then MPI ends. Otherwise only Abort
// or the launcher can end the other processes.
func (w *MPI) Close() error {
	w.close.Do(func() {
		w.each(func(p *peer) {
			for range mpiWindow { // one for each posted receive of the other process
				p.out.put(Message{Kind: bye})
			}
			p.out.end()
		})
		w.mu.Lock()
		w.closing = time.Now()
		w.mu.Unlock()
		signal(w.wake)
	})
	<-w.finished
	return nil
}

// Abort ends all processes of a launch in which one is lost. This process ends with the given status. If MPI has ended
// properly, Abort only returns.
func (w *MPI) Abort(status int) {
	_ = w.Close() // Close returns no error
	if !w.whole {
		w.aborts <- status
		<-w.aborts // returns if MPI has not ended this process
	}
}
