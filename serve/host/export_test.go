package host

// Names of the package that its tests use.
const (
	CacheHeader = cacheHeader
	Freshness   = freshness
)

// Resident is a named model.
type Resident = entry

// Named finds a model by name.
var Named = named

// Acquire is acquire, for tests.
var Acquire = (*Host).acquire

// Release is release, for tests.
var Release = (*Host).release

// NextBegins is nextBegins, for tests.
var NextBegins = (*Model).nextBegins

// WaitAhead waits until no text is being read ahead.
func WaitAhead(m *Model) { m.ahead.all.Wait() }

// Locked calls a function with mu held, so that no model is loaded or unloaded.
func (r *Host) Locked(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
}

// Used returns the number of bytes of weights in use.
func (r *Host) Used() int64 { return r.used }

// Left returns the remaining waiting requests, queued models, and entries.
func (r *Host) Left() (waiting, queue, entries int) {
	return r.waiting.Taken(), len(r.queue), len(r.entries)
}
