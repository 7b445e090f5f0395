package cluster

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// link is a connection to another member, which may not be established yet.
type link struct {
	id    ID
	conn  *tls.Conn
	out   *outbox
	heard atomic.Int64 // when data last arrived, in ns since 1970
}

// link returns the link to a member, and creates it if there is none. mu must be held.
func (t *TCP) link(id ID) *link {
	l := t.links[id]
	if l == nil {
		l = &link{id: id, out: newOutbox()}
		t.links[id] = l
	}
	return l
}

// connect sets the connection of a link and starts its reader and writer. mu must be held.
func (t *TCP) connect(l *link, conn *tls.Conn) {
	l.conn = conn
	l.heard.Store(time.Now().UnixNano())
	t.writers.Add(1)
	go t.write(l)
	go t.read(l)
}

// outbox returns the queue of messages to a member, or nil if the member is lost.
func (t *TCP) outbox(id ID) *outbox {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.links[id]; l != nil {
		return l.out
	}
	return nil
}

// Send queues a message.
func (t *TCP) Send(to ID, m Message) {
	if o := t.outbox(to); o != nil {
		o.put(m)
	}
}

// Ready waits until the queue to a member is short.
func (t *TCP) Ready(ctx context.Context, to ID) error {
	if o := t.outbox(to); o != nil {
		return o.ready(ctx)
	}
	return ctx.Err()
}

// write sends the queued messages, and a heartbeat every pingEvery while the queue is empty.
func (t *TCP) write(l *link) {
	defer t.writers.Done()
	defer l.conn.Close() // the reader reports the error
	w := bufio.NewWriterSize(l.conn, 1<<17)
	quiet := time.NewTicker(pingEvery)
	defer quiet.Stop()
	for {
		m, ok, ended := l.out.next()
		var err error
		switch {
		case ok:
			err = writeFrame(w, m)
		case ended:
			if w.Flush() == nil {
				_ = l.conn.CloseWrite() // tells the other end that this is no accident
			}
			return
		default:
			if err = w.Flush(); err == nil {
				select {
				case <-l.out.more:
				case <-quiet.C:
					err = writeFrame(w, Message{Kind: ping})
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// read puts incoming messages into the mailbox.
func (t *TCP) read(l *link) {
	r := bufio.NewReaderSize(&heard{l.conn, &l.heard}, 1<<17)
	for {
		m, err := readFrame(r, maxBody)
		if err != nil {
			why := err.Error()
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				why = "connection closed"
			}
			t.mu.Lock()
			if t.links[l.id] == l {
				t.drop(l.id, why)
			}
			t.mu.Unlock()
			return
		}
		m.From = l.id
		switch m.Kind {
		case ping, bye:
		case Hello, Gone: // only a wire creates these
		default:
			t.box.put(m)
		}
	}
}

// heard is a Reader that records when data arrives.
type heard struct {
	io.Reader
	at *atomic.Int64
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if n > 0 {
		h.at.Store(time.Now().UnixNano())
	}
	return n, err
}

// Drop disconnects a member after sending the messages queued for it.
func (t *TCP) Drop(id ID, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(id, why)
}

// drop is Drop. mu must be held.
func (t *TCP) drop(id ID, why string) {
	l := t.links[id]
	if l == nil {
		return
	}
	delete(t.links, id)
	if l.conn != nil {
		_ = l.conn.SetDeadline(time.Now().Add(flushTime)) // the connection is closed by then
	}
	l.out.end()
	t.box.put(Message{From: id, Kind: Gone, Body: []byte(why)})
}
