package host

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/serve/request"
)

// fits returns an error if a model does not fit even if all others are unloaded. mu must be held.
func (r *Host) fits(info ModelInfo) error {
	most := r.Library.Memory
	for _, e := range r.fixed {
		most -= e.bytes
	}
	if r.Library.Memory == 0 || info.Memory <= most {
		return nil
	}
	return &request.Error{
		Status: http.StatusServiceUnavailable, Param: "model", Code: "model_too_large",
		Message: fmt.Sprintf("model: %.100q needs about %d MiB of memory, and the server has %d MiB for models "+
			"(--max_memory)", info.Name, info.Memory>>20, max(0, most)>>20),
	}
}

// errLoad is the error of a model whose files cannot be read.
func errLoad(info ModelInfo, err error) error {
	if known := (*request.Error)(nil); errors.As(err, &known) {
		return known
	}
	return &request.Error{
		Status: http.StatusInternalServerError, Param: "model", Code: "model_load_failed",
		Message: fmt.Sprintf("model: %.100q cannot be loaded: %v", info.Name, brief.Error(err)),
	}
}

// grant starts to load queued models for which there is memory, and frees memory. mu must be held.
func (r *Host) grant() {
	for _, e := range r.entries {
		e.leaving = false
	}
	for len(r.queue) > 0 {
		e := r.queue[0]
		if e.model != nil && !e.usable(e.wanted) { // its files have changed, or its device has failed
			for _, other := range r.entries {
				if other.base == e && other.model != nil && other.uses == 0 { // it shares the weights
					r.unload(other)
				}
			}
			if e.uses == 0 {
				r.unload(e)
			}
		}
		if e.closing || e.model != nil && !e.usable(e.wanted) {
			break
		}
		if e.model == nil && !r.makeRoom(e) {
			break
		}
		r.queue = slices.Delete(r.queue, 0, 1)
		if e.model == nil {
			r.start(e)
		} else {
			r.resolve(e, e.model, nil)
		}
	}
	// A model that became usable need not wait for its turn.
	r.queue = slices.DeleteFunc(r.queue, func(e *entry) bool {
		ok := e.usable(e.wanted)
		if ok {
			r.resolve(e, e.model, nil)
		}
		return ok
	})
}

// makeRoom reports whether there is memory for a model. If not, it unloads idle models and makes busy ones stop
// admitting requests. mu must be held.
func (r *Host) makeRoom(e *entry) bool {
	need := r.used + e.wanted.Memory - r.Library.Memory
	if r.Library.Memory == 0 || need <= 0 {
		return true
	}
	var others []*entry
	for _, other := range r.entries {
		switch {
		case other.closing:
			need -= other.bytes
		case other.model != nil && !other.fixed:
			others = append(others, other)
		}
	}
	slices.SortFunc(others, func(a, b *entry) int {
		if (a.uses == 0) != (b.uses == 0) {
			if a.uses == 0 {
				return -1
			}
			return 1
		}
		return int(a.last - b.last)
	})
	for _, other := range others {
		if need <= 0 {
			break
		}
		need -= other.bytes
		if other.leaving = other.uses > 0; !other.leaving {
			r.unload(other)
		}
	}
	for _, other := range others { // models that share the weights of an unloaded one must be unloaded first
		if other.model != nil && other.base != nil && other.base.leaving {
			if other.leaving = other.uses > 0; !other.leaving {
				r.unload(other)
			}
		}
	}
	return false
}

// resolve passes a model or an error to all requests that wait for it. mu must be held.
func (r *Host) resolve(e *entry, m *Model, err error) {
	l := e.load
	e.load = nil
	l.model, l.err = m, err
	if err == nil {
		e.use(l.waiting)
	}
	close(l.done)
}

// start starts to load a model. Its memory counts as used from now on. mu must be held.
func (r *Host) start(e *entry) {
	e.load.started = true
	e.info, e.bytes, e.deleted, e.keep = e.wanted, e.wanted.Memory, false, r.Library.KeepAlive
	r.used += e.bytes
	go r.fetch(e, e.info)
}

// fetch loads a model.
func (r *Host) fetch(e *entry, info ModelInfo) {
	begun := time.Now()
	m, base, bytes, err := r.readOn(info)
	if err != nil {
		debug.FreeOSMemory()
		r.Log.Error("model not loaded", "model", info.Name, "error", err.Error())
		r.Changed(info.Name, modelFailed, 0)
	} else {
		took := time.Since(begun)
		r.Log.Info("model loaded", "model", info.Name, "bytes", bytes, "seconds", took.Seconds())
		r.Changed(info.Name, ModelLoaded, took)
	}
	r.mu.Lock()
	r.used -= e.bytes
	e.bytes = 0
	if err == nil {
		e.model, e.bytes, e.base = m, bytes, base
		r.used += e.bytes
		r.clock++
		e.last = r.clock
	}
	r.resolve(e, m, err)
	if err == nil && e.uses == 0 { // all waiting clients have disconnected
		r.rest(e)
	}
	r.grant()
	r.mu.Unlock()
	r.share()
}

// readOn loads a model after its base, which stays in use while the model is loaded. bytes is the size of the model's
// own weights.
func (r *Host) readOn(info ModelInfo) (m *Model, base *entry, bytes int64, err error) {
	if info.Base != "" {
		var under *Model
		if base, under, err = r.acquire(r.Running, info.Base); err != nil {
			return nil, nil, 0, err
		}
		bytes -= int64(under.Net.Bytes())
	}
	if m, err = r.read(info); err != nil {
		if base != nil {
			r.release(base)
		}
		return nil, nil, 0, errLoad(info, err)
	}
	return m, base, bytes + int64(m.Net.Bytes()), nil
}

// read loads a model from the library. Panics, such as those from a file truncated while it is read, become errors.
func (r *Host) read(info ModelInfo) (m *Model, err error) {
	defer request.Recover(&err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	m, err = r.Library.Load(r.Running, info)
	if err == nil && m == nil {
		err = errors.New("the library returned no model")
	}
	return m, err
}

// unload unloads an idle model. Its memory counts as used until it is released. mu must be held.
func (r *Host) unload(e *entry) {
	m, name, base := e.model, e.info.Name, e.base
	e.model, e.base, e.closing, e.expires = nil, nil, true, time.Time{}
	if e.timer != nil {
		e.timer.Stop()
	}
	go func() {
		m.close(r.Log, r.Unloading)
		m = nil // for the garbage collector
		debug.FreeOSMemory()
		r.Log.Info("model unloaded", "model", name)
		r.Changed(name, modelUnloaded, 0)
		if base != nil {
			r.release(base)
		}
		r.mu.Lock()
		r.used -= e.bytes
		e.bytes, e.closing = 0, false
		if e.load == nil {
			delete(r.entries, name)
		}
		r.grant()
		r.mu.Unlock()
		select {
		case r.left <- struct{}{}:
		default:
		}
		r.share()
	}()
}

// share divides the memory for prompt caches equally among the loaded models.
func (r *Host) share() {
	if r.Library.Texts == 0 {
		return
	}
	r.sharing.Lock()
	defer r.sharing.Unlock()
	var models []*Model
	r.mu.Lock()
	for _, e := range r.entries {
		if e.model != nil && !e.fixed && e.model.Texts != nil {
			models = append(models, e.model)
		}
	}
	r.mu.Unlock()
	for _, m := range models {
		m.Texts.SetMemory(r.Running, r.Library.Texts/int64(len(models)))
	}
}

// Close stops admitting requests, unloads all models of the library and waits until they are unloaded.
func (r *Host) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	for _, e := range r.entries {
		if e.model != nil && e.uses == 0 && !e.fixed {
			r.unload(e)
		}
	}
	r.mu.Unlock()
	for r.Busy() {
		select {
		case <-r.left:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Busy reports whether a model of the library is loaded or being unloaded.
func (r *Host) Busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.entries {
		if !e.fixed && (e.model != nil || e.closing) {
			return true
		}
	}
	return false
}
