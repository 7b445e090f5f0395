package cluster

import (
	"context"
	"sync"
)

// mailbox holds messages until they are received.
type mailbox struct {
	mu     sync.Mutex
	queue  []Message
	err    error
	signal chan struct{} // buffered for one
}

func (b *mailbox) init() { b.signal = make(chan struct{}, 1) }

func (b *mailbox) put(m Message) {
	b.mu.Lock()
	b.queue = append(b.queue, m)
	b.mu.Unlock()
	signal(b.signal)
}

// close makes take return err when the queue is empty. Later calls do not change the error.
func (b *mailbox) close(err error) {
	b.mu.Lock()
	if b.err == nil {
		b.err = err
	}
	b.mu.Unlock()
	signal(b.signal)
}

func (b *mailbox) poll() (m Message, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		return m, false
	}
	m = b.queue[0]
	b.queue[0] = Message{}
	b.queue = b.queue[1:]
	return m, true
}

func (b *mailbox) take(ctx context.Context) (Message, error) {
	for {
		if m, ok := b.poll(); ok {
			return m, nil
		}
		b.mu.Lock()
		err := b.err
		b.mu.Unlock()
		if err != nil {
			signal(b.signal) // for the next call
			return Message{}, err
		}
		select {
		case <-b.signal:
		case <-ctx.Done():
			return Message{}, ctx.Err()
		}
	}
}
