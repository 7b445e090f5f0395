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

// link is a connection to another member, perhaps one that is not there yet.
type link struct {
	id    ID
	conn  *tls.Conn
	out   *outbox
	heard atomic.Int64 // when something came last, in ns
}

// link returns the link to a member. The lock is held.
func (t *TCP) link(id ID) *link {
	l := t.links[id]
	if l == nil {
		l = &link{id: id, out: newOutbox()}
		t.links[id] = l
	}
	return l
}

// connect gives a link its connection. The lock is held.
func (t *TCP) connect(l *link, conn *tls.Conn) {
	l.conn = conn
	l.heard.Store(time.Now().UnixNano())
	t.writers.Add(1)
	go t.write(l)
	go t.read(l)
}

// outbox is what is queued for a member, nil if it is lost.
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

// Ready waits until little is queued.
func (t *TCP) Ready(ctx context.Context, to ID) error {
	if o := t.outbox(to); o != nil {
		return o.ready(ctx)
	}
	return ctx.Err()
}

// write sends what is queued, and a sign of life where nothing is.
func (t *TCP) write(l *link) {
	defer t.writers.Done()
	defer l.conn.Close() // the reader says what is wrong with it
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
				_ = l.conn.CloseWrite() // says that it is no accident
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
		case Hello, Gone: // which only a wire says
		default:
			t.box.put(m)
		}
	}
}

// heard notes when something comes.
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

// Drop disconnects a member, after what is queued for it.
func (t *TCP) Drop(id ID, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(id, why)
}

// drop is Drop. The lock is held.
func (t *TCP) drop(id ID, why string) {
	l := t.links[id]
	if l == nil {
		return
	}
	delete(t.links, id)
	if l.conn != nil {
		_ = l.conn.SetDeadline(time.Now().Add(flushTime)) // it is closed at the latest then
	}
	l.out.end()
	t.box.put(Message{From: id, Kind: Gone, Body: []byte(why)})
}
