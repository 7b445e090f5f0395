// Package host loads and unloads the models of a server: fixed ones, and those of a Library, which are loaded on
// request and unloaded when they are idle or another model needs their memory. A Model uses caches to read texts:
// stored prefixes, log-probabilities, sessions in memory, grammars.
package host

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Host holds the models of a server: fixed ones, and those of a library, which are loaded when a request needs them,
// and unloaded when they are idle for long or another model needs their memory.
//
// Models to be loaded wait in a FIFO queue. If there is no memory for the first one, idle models are unloaded, the
// least recently used first. If that is not enough, models in use stop admitting requests until it is. So no model
// waits forever while others are always busy.
type Host struct {
	Options
	Library *Library // nil if all models are fixed

	listing sync.Mutex      // held while the library is listed
	sharing sync.Mutex      // held while the memory for prompt caches is divided
	left    chan struct{}   // places of requests that wait for a model
	waiting *request.Places // of requests that wait for a model

	fixed []*entry // always loaded

	mu      sync.Mutex // guards the fields below
	entries map[string]*entry
	known   []ModelInfo       // of the library
	copies  map[string]string // additional names of models, mapped to the original names
	listed  time.Time         // when known was listed
	queue   []*entry          // models to be loaded
	used    int64             // bytes of the weights that are loaded, being loaded or being unloaded
	clock   int64             // counts uses
	closed  bool
}

// entry is a named model.
type entry struct {
	info    ModelInfo // describes the loaded model
	fixed   bool      // always loaded
	model   *Model    // nil unless it is loaded
	closing bool      // being unloaded
	leaving bool      // admits no more requests, to free memory for another model
	deleted bool      // admits no more requests: it was removed from the disk
	uses    int       // number of requests that use the model
	last    int64     // value of clock at the last use
	bytes   int64     // size of the weights
	base    *entry    // the model whose weights it shares, or nil
	keep    time.Duration
	expires time.Time // when an idle model is unloaded; zero for never
	timer   *time.Timer

	wanted ModelInfo // describes the model to load
	load   *loading  // nil if no request waits
}

// loading is the loading of a model that requests wait for.
type loading struct {
	name    string
	waiting int
	started bool // no longer in the queue
	model   *Model
	err     error
	done    chan struct{} // closed when model or err is set
}

// freshness is the time for which a list of the library is valid.
const freshness = time.Second

// Options configure how models are loaded.
type Options struct {
	Queue     int             // requests that may wait for a model
	QueueWait time.Duration   // maximum time that a request waits for memory
	Running   context.Context // done when requests in flight must end
	// Other returns an error if a name belongs to something other than a language model.
	Other func(name string) error
	// Unloading is called before an idle model is unloaded.
	Unloading func(*Model)
	// Changed is called with the time it took when a model was loaded, and also when loading failed or a model was
	// unloaded.
	Changed func(model, change string, took time.Duration)
	Log     *slog.Logger
}

// Changes of a model, in hippo_model_changes_total.
const (
	ModelLoaded   = "loaded"
	modelFailed   = "failed"
	modelUnloaded = "unloaded"
)

// New returns a host of fixed models and of a library, which may be nil.
func New(o Options, lib *Library, models []*Model) *Host {
	r := &Host{
		Options: o, Library: lib, left: make(chan struct{}, 1), entries: map[string]*entry{},
		waiting: request.NewPlaces(int64(o.Queue)),
	}
	for _, m := range models {
		e := &entry{fixed: true, model: m, bytes: int64(m.Net.Bytes()), info: m.info()}
		r.fixed = append(r.fixed, e)
		r.entries[m.Name] = e
		r.used += e.bytes
	}
	return r
}

// All describes all models, the fixed ones first.
func (r *Host) All(ctx context.Context) ([]ModelInfo, error) {
	var all []ModelInfo
	for _, e := range r.fixed {
		all = append(all, e.info)
	}
	if r.Library == nil {
		return append(all, r.copiesOf(all)...), nil
	}
	r.listing.Lock()
	defer r.listing.Unlock()
	r.mu.Lock()
	known, listed := r.known, r.listed
	r.mu.Unlock()
	if time.Since(listed) > freshness {
		var err error
		if known, err = r.Library.Models(ctx); err != nil {
			return nil, err
		}
		r.mu.Lock()
		r.known, r.listed = known, time.Now()
		r.mu.Unlock()
	}
	for _, info := range known {
		if !slices.ContainsFunc(r.fixed, func(e *entry) bool { return e.info.Name == info.Name }) {
			all = append(all, info)
		}
	}
	return append(all, r.copiesOf(all)...), nil
}

// Find describes the model with a name, which may be that of a copy.
func (r *Host) Find(ctx context.Context, name string) (ModelInfo, error) {
	r.mu.Lock()
	if e := r.entries[name]; e != nil && e.model != nil && !e.deleted && (e.fixed || e.uses > 0) {
		defer r.mu.Unlock()
		return e.info, nil
	}
	r.mu.Unlock()
	all, err := r.All(ctx)
	if err != nil {
		return ModelInfo{}, err
	}
	info, ok := named(all, name)
	if ok && info.CopyOf != "" {
		info, ok = named(all, info.CopyOf)
	}
	if !ok {
		return info, request.ErrNoModel(name)
	}
	return info, nil
}

// usable reports whether requests may use the loaded model. If its files have changed or its device has failed, the
// model is loaded again once it is idle.
func (e *entry) usable(now ModelInfo) bool {
	return e.model != nil && !e.leaving && !e.deleted &&
		(e.fixed || (e.uses > 0 || e.info.Digest == now.Digest) && engine.Failure(e.model.Net.Backend()) == nil)
}

// acquire returns a model by name, and loads it if needed. The model stays loaded until release is called.
func (r *Host) acquire(ctx context.Context, name string) (*entry, *Model, error) {
	info, err := r.Find(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	r.mu.Lock()
	e := r.entries[info.Name]
	if e == nil {
		e = &entry{}
		r.entries[info.Name] = e
	}
	if r.closed {
		r.mu.Unlock()
		return nil, nil, request.ErrDraining
	}
	if e.usable(info) {
		defer r.mu.Unlock()
		e.use(1)
		return e, e.model, nil
	}
	leave, err := r.waiting.Enter(request.ShareOf(ctx), "requests are waiting for a model")
	if err != nil {
		r.mu.Unlock()
		return nil, nil, err
	}
	defer leave()
	l, err := r.join(e, info)
	r.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	m, err := r.wait(ctx, e, l)
	return e, m, err
}

// use adds n requests to those that use a model. Host.mu must be held.
func (e *entry) use(n int) {
	if e.timer != nil {
		e.timer.Stop()
	}
	e.uses += n
}

// join queues a request for a model. mu must be held.
func (r *Host) join(e *entry, info ModelInfo) (*loading, error) {
	if e.load == nil {
		if err := r.fits(info); err != nil {
			return nil, err
		}
		e.load, e.wanted = &loading{name: info.Name, done: make(chan struct{})}, info
		r.queue = append(r.queue, e)
	}
	l := e.load
	l.waiting++
	r.grant()
	return l, nil
}

// wait waits for a model.
func (r *Host) wait(ctx context.Context, e *entry, l *loading) (*Model, error) {
	timer := time.NewTimer(r.QueueWait)
	defer timer.Stop()
	late := timer.C
	for {
		var why error
		select {
		case <-l.done:
			return l.model, l.err
		case <-ctx.Done():
			why = context.Cause(ctx)
		case <-late:
			late = nil // no time limit once the model is being loaded
			why = request.Busy("the model %.100q found no room beside those in use in %v", l.name, r.QueueWait)
		}
		if r.giveUp(e, l, ctx.Err() != nil) {
			return nil, why
		}
	}
}

// giveUp ends the wait of a request and reports whether it did. Once the model is being loaded, only a disconnected
// client stops waiting for it. Other requests still wait.
func (r *Host) giveUp(e *entry, l *loading, gone bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-l.done:
		if gone && l.err == nil {
			r.unuse(e)
		}
		return gone
	default:
	}
	if l.started && !gone {
		return false
	}
	l.waiting--
	if l.waiting == 0 && !l.started {
		r.queue = slices.DeleteFunc(r.queue, func(other *entry) bool { return other == e })
		e.load = nil
		r.grant()
	}
	return true
}

// Model returns a model by name, once it is loaded; "" is the first one. The model stays loaded until the request ends.
func (r *Host) Model(c *request.Call, name string) (*Model, error) {
	if err := c.Draining(); err != nil {
		return nil, err
	}
	if err := r.Other(name); err != nil {
		return nil, err
	}
	begun := time.Now()
	e, m, err := r.acquire(c.Request.Context(), name)
	if err != nil {
		return nil, err
	}
	c.AtEnd(func() { r.release(e) })
	c.Load += time.Since(begun)
	return m, nil
}

// Preload loads a model of the library.
func (r *Host) Preload(ctx context.Context, name string) error {
	e, _, err := r.acquire(ctx, name)
	if err == nil {
		r.release(e)
	}
	return err
}

// release ends the use that acquire started.
func (r *Host) release(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unuse(e)
}

// unuse ends the use of a model by one request. mu must be held.
func (r *Host) unuse(e *entry) {
	r.clock++
	e.last = r.clock
	if e.uses--; e.uses == 0 {
		r.rest(e)
		r.grant()
	}
}

// rest schedules the unloading of an idle model. mu must be held.
func (r *Host) rest(e *entry) {
	switch {
	case e.fixed:
	case e.keep == 0 || e.deleted || r.closed:
		r.unload(e)
	case e.keep < 0:
		e.expires = time.Time{}
	default:
		e.expires = time.Now().Add(e.keep)
		e.timer = time.AfterFunc(e.keep, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if e.model != nil && e.uses == 0 && !e.expires.IsZero() && !time.Now().Before(e.expires) {
				r.unload(e)
			}
		})
	}
}

// keep sets how long a model stays loaded when idle. The next load resets this to the library's time.
func (r *Host) keep(e *entry, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.keep = d
	if e.model != nil && e.uses == 0 {
		if e.timer != nil {
			e.timer.Stop()
		}
		r.rest(e)
	}
}

// SetKeepAlive sets how long a model stays loaded when idle. The caller must be using the model.
func (r *Host) SetKeepAlive(m *Model, d time.Duration) {
	r.mu.Lock()
	e := r.entries[m.Name]
	r.mu.Unlock()
	r.keep(e, d)
}

// Unload unloads a model by name as soon as it is idle.
func (r *Host) Unload(ctx context.Context, name string) error {
	info, err := r.Find(ctx, name)
	if err != nil {
		return err
	}
	r.mu.Lock()
	e := r.entries[info.Name]
	var all []*entry
	for _, other := range r.entries {
		if e != nil && (other == e || other.base == e) && !other.fixed { // and models that share its weights
			all = append(all, other)
		}
	}
	r.mu.Unlock()
	for _, other := range all {
		r.keep(other, 0)
	}
	return nil
}

// Refresh makes the next lookup list the library again.
func (r *Host) Refresh() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listed = time.Time{}
}

// Card describes a model, loaded or not.
func (r *Host) Card(ctx context.Context, info ModelInfo) (ModelCard, error) {
	r.mu.Lock()
	e := r.entries[info.Name]
	if e != nil && e.model != nil {
		defer r.mu.Unlock()
		return NewModelCard(e.model.Net, e.model.Settings), nil
	}
	r.mu.Unlock()
	card, err := r.Library.Show(ctx, info)
	if err != nil {
		err = errLoad(info, err)
	}
	return card, err
}

// Removed marks a model as removed from the disk.
func (r *Host) Removed(name string) {
	r.mu.Lock()
	r.listed = time.Time{}
	e := r.entries[name]
	if e != nil && e.model != nil {
		e.deleted = true
	}
	r.mu.Unlock()
	if e != nil {
		r.keep(e, 0)
	}
}

// LoadingModel is a model that requests wait for, as listed by /api/ps.
type LoadingModel struct {
	Name    string `json:"name"`
	Weights int64  `json:"weights_bytes"` // estimate
	Waiting int    `json:"requests_waiting"`
	Started bool   `json:"started"` // it is being loaded; otherwise it waits for memory
}

// Loading returns the models that requests wait for and that are not loaded, sorted by name.
func (r *Host) Loading() []LoadingModel {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := []LoadingModel{}
	for _, e := range r.entries {
		if e.load != nil && e.model == nil {
			all = append(all, LoadingModel{e.wanted.Name, e.wanted.Memory, e.load.waiting, e.load.started})
		}
	}
	slices.SortFunc(all, func(a, b LoadingModel) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Loaded describes a loaded model and its use.
type Loaded struct {
	ModelInfo
	Model   *Model
	fixed   bool
	Bytes   int64
	Uses    int
	Waiting int
	Expires time.Time
}

// Loaded returns the loaded models, the most recently used first.
func (r *Host) Loaded() []Loaded {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*entry
	for _, e := range r.entries {
		if e.model != nil {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.last, a.last), cmp.Compare(a.info.Name, b.info.Name))
	})
	out := make([]Loaded, len(all))
	for i, e := range all {
		expires := e.expires
		if e.uses > 0 && e.keep >= 0 {
			expires = time.Now().Add(e.keep)
		}
		if e.fixed || e.keep < 0 {
			expires = time.Time{}
		}
		out[i] = Loaded{e.info, e.model, e.fixed, e.bytes, e.uses, 0, expires}
		if e.load != nil {
			out[i].Waiting = e.load.waiting
		}
	}
	return out
}
