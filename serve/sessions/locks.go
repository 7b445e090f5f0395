package sessions

import (
	"context"
	"sync"
)

// locks ensure that a session is used by one request of this server at a time.
type locks struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed on unlock
}

// lock waits until a session is unlocked and locks it. It returns nil if ctx is done first.
func (l *locks) lock(ctx context.Context, id string) (release func()) {
	for {
		l.mu.Lock()
		others := l.held[id]
		if others == nil {
			mine := make(chan struct{})
			if l.held == nil {
				l.held = map[string]chan struct{}{}
			}
			l.held[id] = mine
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(l.held, id)
				close(mine)
			}
		}
		l.mu.Unlock()
		select {
		case <-others:
		case <-ctx.Done():
			return nil
		}
	}
}
