package cluster

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"
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
	closing  time.Time // when Close was called
	dropped  map[ID]string
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
	handle uint64 // as large as any library's
	packet []byte
	pin    runtime.Pinner
}

// packetSize is the most bytes that are sent at once: a frame with the values of a chunk.
const packetSize = headSize + 4<<16

// mpiWindow is how many packets are on their way to or from another process.
const mpiWindow = 4

// How a wire waits when nothing moves: it tries again at once, then ever less often. A message that is sent wakes it.
const (
	mpiEager = 200 * time.Microsecond
	mpiCalm  = 10 * time.Millisecond
)

// peer is another process.
type peer struct {
	id       ID
	out      *outbox
	sending  []*mpiRequest
	left     [][]byte // of the frame that is being sent
	receives []*mpiRequest
	message  Message  // that is being received
	room     [][]byte // for the rest of it
	sent     time.Time
	heard    time.Time
	ends     bool // it sends nothing more
	lost     bool
}

// newMPI starts a wire. open starts MPI on the thread that makes all other calls.
func newMPI(open func() (calls mpiCalls, rank, size int, err error), g Greeting) (*MPI, error) {
	w := &MPI{wake: make(chan struct{}, 1), patience: leastPatience, dropped: map[ID]string{},
		finished: make(chan struct{}), aborts: make(chan int)}
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

func (w *MPI) expect(p *peer, packet []byte) error {
	r, err := w.calls.irecv(packet, int(p.id))
	p.receives = append(p.receives, r)
	return err
}

// turn receives and sends what can be, and says whether there was anything.
func (w *MPI) turn(now time.Time) (any bool, err error) {
	w.mu.Lock()
	dropped, patience, closing := w.dropped, w.patience, !w.closing.IsZero()
	if len(dropped) > 0 {
		w.dropped = map[ID]string{}
	}
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

// send sends a packet if there is one, or finds that one has been sent.
func (w *MPI) send(p *peer, now time.Time) (any bool, err error) {
	if len(p.sending) > 0 {
		done, err := w.calls.test(p.sending[0])
		if err != nil {
			return false, err
		}
		if done {
			p.sending = slices.Delete(p.sending, 0, 1)
			p.sent = now
			any = true
		}
	}
	if len(p.sending) == mpiWindow {
		return any, nil
	}
	if len(p.left) == 0 {
		m, ok, _ := p.out.next()
		if !ok {
			return any, nil
		}
		head := m.head()
		p.left = [][]byte{head[:], m.Body, bytesOf(m.Values)}
	}
	n := 0
	for _, b := range p.left {
		n += len(b)
	}
	packet := make([]byte, 0, min(n, packetSize))
	for len(p.left) > 0 {
		b := p.left[0][:min(len(p.left[0]), packetSize-len(packet))]
		packet = append(packet, b...)
		if p.left[0] = p.left[0][len(b):]; len(p.left[0]) > 0 {
			break
		}
		p.left = p.left[1:]
	}
	r, err := w.calls.isend(packet, int(p.id))
	p.sending = append(p.sending, r)
	return true, err
}

// receive takes a packet if there is one.
func (w *MPI) receive(p *peer, now time.Time, closing bool) (any bool, err error) {
	if len(p.receives) == 0 {
		return false, nil
	}
	done, err := w.calls.test(p.receives[0])
	if !done || err != nil {
		return false, err
	}
	packet := p.receives[0].packet
	p.receives = slices.Delete(p.receives, 0, 1)
	p.heard = now
	if p.ends { // one of the packets that end what waits
		return true, nil
	}
	rest := packet
	if len(p.room) == 0 {
		var body, values int
		if p.message, body, values, err = readHead(packet, maxBody); err != nil {
			return false, fmt.Errorf("process %d: %w", p.id, err)
		}
		rest = packet[headSize:]
		p.message.From = p.id
		if body == 0 && values > packetSize/8 { // its receiver gets the packet
			p.message.Values = unsafe.Slice((*float32)(unsafe.Pointer(&rest[0])), values)
			packet = make([]byte, packetSize)
		} else {
			p.message.Body, p.message.Values = make([]byte, body), make([]float32, values)
			p.room = [][]byte{p.message.Body, bytesOf(p.message.Values)}
		}
	}
	for len(p.room) > 0 {
		n := copy(p.room[0], rest)
		rest = rest[n:]
		if p.room[0] = p.room[0][n:]; len(p.room[0]) > 0 {
			break
		}
		p.room = p.room[1:]
	}
	if len(p.room) == 0 {
		w.take(p, closing)
	}
	if p.ends {
		return true, nil
	}
	return true, w.expect(p, packet)
}

// take takes a message.
func (w *MPI) take(p *peer, closing bool) {
	m := p.message
	p.message = Message{}
	switch m.Kind {
	case ping, Gone:
	case bye:
		p.ends = true
		if !closing && (p.id == Lead || w.id == Lead) {
			w.lose(p, "it has ended")
		}
	case Hello:
		if w.id == Lead {
			w.box.put(m)
		}
	default:
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.known(p.id) {
			w.box.put(m)
		} else {
			w.held = append(w.held, m)
		}
	}
}

// known reports whether messages of a process may come: the leader tells members of each other. The lock is held.
func (w *MPI) known(id ID) bool {
	return w.id == Lead || id == Lead || slices.ContainsFunc(w.members, func(m Member) bool { return m.ID == id })
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

// Send queues a message.
func (w *MPI) Send(to ID, m Message) {
	if p := w.peers[to]; p != nil {
		p.out.put(m)
	}
}

// Ready waits until little is queued.
func (w *MPI) Ready(ctx context.Context, to ID) error {
	if p := w.peers[to]; p != nil {
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
