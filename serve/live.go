package serve

import (
	"container/list"
	"sync"

	"github.com/hippo-ssm/hippo/session"
)

// live are sessions of a model that are in memory, besides being stored: what is used least goes first. Of one whose
// last change could not be stored the text stays, in the server's pending. Who uses one has locked it.
type live struct {
	Most int // bytes

	mu     sync.Mutex
	all    map[string]*list.Element // of *liveSession
	recent list.List                // the last used first
	bytes  int
}

// liveSession is a session in memory.
type liveSession struct {
	id       string
	revision string // that it is, or was before a change that is not stored
	session  *session.Session
	bytes    int
}

// liveMemory is the most bytes that the sessions of a model take in memory besides being stored.
const liveMemory = 512 << 20

func newLive(most int) *live { return &live{Most: most, all: map[string]*list.Element{}} }

// get returns a session if it is that of a revision, or nil.
func (l *live) get(id, revision string) *session.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.all[id]
	if e == nil {
		return nil
	}
	x := e.Value.(*liveSession)
	if x.revision != revision { // another server has changed it
		l.remove(e)
		return nil
	}
	l.recent.MoveToFront(e)
	return x.session
}

// put keeps a session, in the place of an earlier one.
func (l *live) put(x *liveSession) {
	x.bytes = x.session.StateSize() + sessionBudget + 16*x.session.Position()
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.all[x.id]; old != nil {
		l.remove(old)
	}
	l.all[x.id] = l.recent.PushFront(x)
	l.bytes += x.bytes
	for l.bytes > l.Most && l.recent.Len() > 0 {
		l.remove(l.recent.Back())
	}
}

// remove forgets a session. The lock is held.
func (l *live) remove(e *list.Element) {
	x := l.recent.Remove(e).(*liveSession)
	l.bytes -= x.bytes
	delete(l.all, x.id)
}

// sessionBudget is the budget of the places to go back to in a session in memory, in bytes.
const sessionBudget = 16 << 20
