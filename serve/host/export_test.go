package host

// Names of the package that its tests use.
const (
	CacheHeader = cacheHeader
	Freshness   = freshness
)

// Resident is a model by its name.
type Resident = entry

// Named finds the model of a name.
var Named = named

// Acquire is acquire, for tests.
var Acquire = (*Host).acquire

// Release is release, for tests.
var Release = (*Host).release

// NextBegins is nextBegins, for tests.
var NextBegins = (*Model).nextBegins

// WaitAhead waits until nothing is read ahead.
func WaitAhead(m *Model) { m.ahead.all.Wait() }

// Locked calls a function while no model is loaded or unloaded.
func (r *Host) Locked(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do()
}

// Used is how many bytes of weights are counted.
func (r *Host) Used() int64 { return r.used }

// Left is what is left of requests for models: those that wait, models in the queue, and entries.
func (r *Host) Left() (waiting, queue, entries int) {
	return r.waiting.Taken(), len(r.queue), len(r.entries)
}
