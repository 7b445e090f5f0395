package host

import (
	"container/list"
	"sync"

	"github.com/hippo-ssm/hippo/session"
)

// SessionCache caches stored sessions of a model in memory. The least recently used session is evicted first. If the
// last change of a session could not be stored, the server's unsaved records have its text. The user of a session must
// have locked it.
type SessionCache struct {
	Most int // budget in bytes

	mu     sync.Mutex
	all    map[string]*list.Element // of *liveSession
	recent list.List                // most recently used first
	bytes  int
}

// CachedSession is a session in memory.
type CachedSession struct {
	ID       string
	Revision string // the stored revision that the session is equal to or based on
	Session  *session.Session
	bytes    int
}

// sessionMemory is the default budget of a model's cached sessions in bytes.
const sessionMemory = 512 << 20

func newSessionCache(most int) *SessionCache {
	return &SessionCache{Most: most, all: map[string]*list.Element{}}
}

// Get returns the cached session with a revision, or nil.
func (l *SessionCache) Get(id, revision string) *session.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.all[id]
	if e == nil {
		return nil
	}
	x := e.Value.(*CachedSession)
	if x.Revision != revision { // another server has changed the session
		l.remove(e)
		return nil
	}
	l.recent.MoveToFront(e)
	return x.Session
}

// Put caches a session, replacing an earlier one with the same id.
func (l *SessionCache) Put(x *CachedSession) {
	x.bytes = x.Session.StateSize() + SessionBudget + 16*x.Session.Position()
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.all[x.ID]; old != nil {
		l.remove(old)
	}
	l.all[x.ID] = l.recent.PushFront(x)
	l.bytes += x.bytes
	for l.bytes > l.Most && l.recent.Len() > 0 {
		l.remove(l.recent.Back())
	}
}

// Drop removes a session.
func (l *SessionCache) Drop(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.all[id]; e != nil {
		l.remove(e)
	}
}

// remove evicts a session. mu must be held.
func (l *SessionCache) remove(e *list.Element) {
	x := l.recent.Remove(e).(*CachedSession)
	l.bytes -= x.bytes
	delete(l.all, x.ID)
}

// SessionBudget is the budget of the marks of a session in memory, in bytes.
const SessionBudget = 16 << 20
