package cluster

import (
	"context"
	"sync"
)

// outbox is the queue of messages to a member.
type outbox struct {
	mu      sync.Mutex
	queue   []Message
	queued  int           // bytes
	more    chan struct{} // buffered for one: a message is queued, or the outbox ends
	drained chan struct{} // closed when the queue gets short, or the outbox ends
	ended   bool
}

func newOutbox() *outbox { return &outbox{more: make(chan struct{}, 1), drained: make(chan struct{})} }

func (m *Message) size() int { return headSize + len(m.Body) + 4*len(m.Values) }

// put queues a message, unless the outbox has ended.
func (o *outbox) put(m Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.queue = append(o.queue, m)
		o.queued += m.size()
		signal(o.more)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// ready waits until the queue is short.
func (o *outbox) ready(ctx context.Context) error {
	for {
		o.mu.Lock()
		few, drained := o.ended || o.queued < queueLimit, o.drained
		o.mu.Unlock()
		if few {
			return ctx.Err()
		}
		select {
		case <-drained:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// next takes the next message from the queue. ended reports that no more will come.
func (o *outbox) next() (m Message, ok, ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		return m, false, o.ended
	}
	m = o.queue[0]
	o.queue[0] = Message{}
	o.queue = o.queue[1:]
	if o.queued -= m.size(); !o.ended && o.queued < queueLimit && o.queued+m.size() >= queueLimit {
		close(o.drained)
		o.drained = make(chan struct{})
	}
	return m, true, false
}

// end closes the outbox for new messages. Those already queued can still be taken.
func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.ended = true
		close(o.drained)
		signal(o.more)
	}
}

// empty reports whether nothing is queued.
func (o *outbox) empty() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue) == 0
}
