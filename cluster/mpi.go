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

// MPI is Wire by messages of MPI, among the processes of one launch, whose ranks are the members' IDs. Its launcher
// says who they are: there is no key. MPI goes on without none of them. So if one is lost, the run ends, and who has
// started it may start it again.
//
// One thread makes all calls of MPI. A frame is cut into packets of packetSize. For each other process some receives
// are always waiting, and some sends are on their way, so that large messages follow each other without a pause.
type MPI struct {
	calls mpiCalls
	id    ID
	peers []*peer // by rank, nil for this process
	box   mailbox
	wake  chan struct{} // has room for one: something is queued
	close sync.Once

	mu       sync.Mutex
	members  []Member
	held     []Message // of processes that are no members yet
	patience time.Duration
	closing  time.Time     // when Close was called
	dropped  map[ID]string // since the last turn, which takes it; nil for none
	finished chan struct{} // closed when Close may return
	aborts   chan int
	whole    bool // MPI has ended, as all have said that they do; read when finished is closed
}

var _ Wire = (*MPI)(nil)

// mpiCalls are the calls of MPI that a wire makes, each from one thread.
type mpiCalls interface {
	isend(b []byte, to int) (*mpiRequest, error)
	irecv(b []byte, from int) (*mpiRequest, error)
	test(r *mpiRequest) (done bool, err error)
	finalize() error
	abort(status int)
}

// mpiRequest is a send or receive on its way. Its memory is MPI's until it is done.
type mpiRequest struct {
	packet []byte
	kept   any // what its calls keep of it
}

// How a wire waits when nothing moves: it tries again at once, then ever less often. A message that is sent wakes it.
const (
	mpiEager = 200 * time.Microsecond
	mpiCalm  = 10 * time.Millisecond
)

// newMPI starts a wire. open starts MPI on the thread that makes all other calls.
func newMPI(open func() (calls mpiCalls, rank, size int, err error), g Greeting) (*MPI, error) {
	w := &MPI{wake: make(chan struct{}, 1), patience: leastPatience, finished: make(chan struct{}),
		aborts: make(chan int)}
	w.box.init()
	opened := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: MPI belongs to this thread
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
		if now.Sub(last) > pingEvery { // this process was stopped, not the others
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

// begin waits for packets of all.
func (w *MPI) begin() (err error) {
	w.each(func(p *peer) {
		for range mpiWindow {
			err = errors.Join(err, w.expect(p, make([]byte, packetSize)))
		}
	})
	return err
}

// turn receives and sends what can be, and says whether there was anything.
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

// wait waits the longer, the longer nothing has moved.
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

// lose tells that a process is lost: the leader ends the run.
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

// over reports whether the wire has closed. MPI ends if all processes have said that they send nothing more.
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

// Self is the process's rank.
func (w *MPI) Self() ID { return w.id }

// peer is another process, nil if there is none.
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

// Ready waits until little is queued.
func (w *MPI) Ready(ctx context.Context, to ID) error {
	if p := w.peer(to); p != nil {
		return p.out.ready(ctx)
	}
	return ctx.Err()
}

// Receive returns the next message. Its error says who is lost.
func (w *MPI) Receive(ctx context.Context) (Message, error) { return w.box.take(ctx) }

// Poll is Receive where there is a message at once.
func (w *MPI) Poll() (Message, bool) { return w.box.poll() }

// Know says who is there: what others have sent before may come now.
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

// Drop says that a process is of no use. The leader ends the run.
func (w *MPI) Drop(id ID, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dropped == nil {
		w.dropped = map[ID]string{}
	}
	w.dropped[id] = why
	signal(w.wake)
}

// Patience is how long a process may be silent.
func (w *MPI) Patience(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.patience = d
}

// Close says to all that this process ends, and waits until all have said so. Then MPI ends. Otherwise only Abort, or
// the launcher, ends the others.
func (w *MPI) Close() error {
	w.close.Do(func() {
		w.each(func(p *peer) {
			for range mpiWindow { // so that no receive is left
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

// Abort ends all processes of a launch in which one is lost, this one with a status. It returns where MPI has ended as
// it should.
func (w *MPI) Abort(status int) {
	_ = w.Close() // it has no error
	if !w.whole {
		w.aborts <- status
		<-w.aborts // if MPI has not ended this process
	}
}
