package cluster

import (
	"fmt"
	"slices"
	"time"
	"unsafe"
)

// packetSize is the maximum number of bytes of a packet: a frame with the values of a chunk.
const packetSize = headSize + 4<<16

// mpiWindow is how many packets may be in progress to or from another process.
const mpiWindow = 4

// peer is another process.
type peer struct {
	id       ID
	out      *outbox
	sending  []*mpiRequest
	left     [][]byte // rest of the frame being sent
	receives []*mpiRequest
	message  Message  // being received
	room     [][]byte // memory for the rest of message
	sent     time.Time
	heard    time.Time
	ends     bool // it sends nothing more
	lost     bool
}

func (w *MPI) expect(p *peer, packet []byte) error {
	r, err := w.calls.irecv(packet, int(p.id))
	p.receives = append(p.receives, r)
	return err
}

// send sends a packet if there is one to send, and checks whether an earlier one has been sent. any reports whether
// there was either.
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

// receive takes a packet if one has arrived.
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
	if p.ends { // a further bye, which completes a posted receive
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
		if body == 0 && values > packetSize/8 { // the message takes over the packet's memory
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

// take delivers a received message.
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

// known reports whether messages of a process may be delivered: the leader tells members of each other. mu must be
// held.
func (w *MPI) known(id ID) bool {
	return w.id == Lead || id == Lead || slices.ContainsFunc(w.members, func(m Member) bool { return m.ID == id })
}
