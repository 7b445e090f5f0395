package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo/serve/fleet"
	"github.com/hippo-ssm/hippo/serve/records"
	"github.com/hippo-ssm/hippo/session/store"
)

// Servers that share a bucket have one list of files and batches. Each server reads the list again before it uses it. A
// batch is run by the server that holds the lock on its description. If that server loses the lock, another continues
// from the journal.

// errTaken is the cause of stopping a batch that another server has taken over or cancelled.
var errTaken = fmt.Errorf("batch: taken by another server: %w", context.Canceled)

// sharedDir is the folder of files and batches in the bucket.
const sharedDir = "files"

// shared is a vault in a bucket. Descriptions of batches change, under the lease of the server that runs the batch.
type shared struct{ in *fleet.Store }

func (v shared) path(name string) string { return sharedDir + "/" + name }

// changes reports whether the data of a name may change after it was first written.
func changes(name string) bool {
	return strings.HasSuffix(name, described) && !strings.HasPrefix(name, filePrefix)
}

func (v shared) write(name string, fill func(io.Writer) error) error {
	var b bytes.Buffer
	if err := fill(&b); err != nil {
		return err
	}
	if changes(name) {
		return v.in.Put(v.path(name), b.Bytes())
	}
	return v.in.Write(v.path(name), b.Bytes())
}

func (v shared) open(name string) (reader, error) {
	var data []byte
	var err error
	switch {
	case strings.HasSuffix(name, progress):
		var parts []store.Entry
		if parts, err = v.parts(name); err == nil && len(parts) == 0 {
			return nil, errNoJournal
		}
		for _, p := range parts {
			part, e := v.in.Read(p.Name)
			data, err = append(data, part...), errors.Join(err, e)
		}
	case changes(name):
		data, err = v.in.Get(v.path(name))
	default:
		data, err = v.in.Read(v.path(name))
	}
	if err != nil {
		return nil, err
	}
	return inMemory{bytes.NewReader(data)}, nil
}

// parts lists the objects of a journal in order.
func (v shared) parts(name string) (all []store.Entry, err error) {
	err = v.in.Find(v.path(name)+"/", func(e store.Entry) { all = append(all, e) })
	slices.SortFunc(all, func(a, b store.Entry) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// extend returns a journal whose records are objects, each written once. If two servers extend it, only one succeeds.
func (v shared) extend(name string, at int64) (journal, error) {
	all, err := v.parts(name)
	j := &parts{v: v, name: name, n: 1}
	for _, p := range all {
		if at -= p.Bytes; at < 0 {
			break // the next write replaces it, or it is another server's
		}
		j.n++
	}
	return j, err
}

// parts is a journal in a bucket.
type parts struct {
	v    shared
	name string
	n    int // number of the next object
	data []byte
}

func (j *parts) Write(p []byte) (int, error) {
	j.data = append(j.data, p...)
	return len(p), nil
}

func (j *parts) Sync() error {
	err := j.v.in.Add(fmt.Sprintf("%s/%09d", j.v.path(j.name), j.n), j.data)
	if err == nil {
		j.n++
		j.data = nil
	}
	return err
}

func (j *parts) Close() error { return nil }

func (v shared) remove(name string) error {
	switch {
	case strings.HasSuffix(name, progress):
		all, err := v.parts(name)
		for _, p := range all {
			err = errors.Join(err, v.in.Drop(p.Name))
		}
		return err
	case changes(name):
		return v.in.Remove(v.path(name))
	}
	return v.in.Drop(v.path(name))
}

func (v shared) names() (names []string, err error) {
	all, err := v.in.List(sharedDir)
	for _, e := range all {
		names = append(names, e.Name)
	}
	return names, err
}

func (shared) close() error { return nil }

// refresh reads the list of files and batches again, if other servers may have changed it.
func (s *Store) refresh() error {
	if s.o.Fleet == nil {
		return nil
	}
	s.mu.Lock()
	known := make([]string, 0, len(s.files)+len(s.batches))
	for id := range s.files {
		known = append(known, id)
	}
	for id := range s.batches {
		known = append(known, id)
	}
	s.mu.Unlock()
	all, err := s.o.Fleet.List(sharedDir)
	if err != nil {
		return err
	}
	const together = 32
	there, places := map[string]bool{}, make(chan struct{}, together)
	var readers sync.WaitGroup
	errs := make(chan error, len(all)+1)
	for _, e := range all {
		id, ok := strings.CutSuffix(e.Name, described)
		if !ok {
			continue
		}
		there[id] = true
		places <- struct{}{}
		readers.Go(func() {
			errs <- s.look(id, false)
			<-places
		})
	}
	readers.Wait()
	close(errs)
	for e := range errs {
		err = errors.Join(err, e)
	}
	for _, id := range known {
		if !there[id] {
			s.lose(id)
		}
	}
	s.sweep(all, there)
	return err
}

// look reads the description of a file or batch, unless this server has it and it cannot have changed. again reports
// whether it may have been removed.
func (s *Store) look(id string, again bool) error {
	is := func(prefix string) bool { return records.IsID(prefix, id) }
	if s.o.Fleet == nil || !is(filePrefix) && !is(batchPrefix) && !is(ownPrefix) {
		return nil
	}
	s.mu.Lock()
	b, f := s.batches[id], s.files[id]
	again = again && (b == nil || b.Own()) // other batches remain once they have ended
	final := !again && (f != nil || b != nil && b.Status.ended()) || s.claims[id] != nil
	s.mu.Unlock()
	if final {
		return nil
	}
	r, err := s.vault.open(id + described)
	if gone(err) {
		s.lose(id)
		return nil
	}
	if err != nil {
		return err
	}
	if strings.HasPrefix(id, filePrefix) {
		f := &File{}
		if err := json.NewDecoder(r).Decode(f); err != nil || f.ID != id {
			return fmt.Errorf("%s: %w", id, errors.Join(err, errDescription))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.files[id] == nil {
			s.files[id] = f
			s.used[f.Owner] += f.Bytes
			s.total += f.Bytes
		}
		return nil
	}
	now := &Batch{}
	if err := json.NewDecoder(r).Decode(now); err != nil || now.ID != id {
		return fmt.Errorf("%s: %w", id, errors.Join(err, errDescription))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims[id] == nil {
		s.batches[id] = now
	}
	return nil
}

// errDescription and errNoJournal are errors of a vault in a bucket.
var (
	errDescription = errors.New("batch: the description is not one")
	errNoJournal   = fmt.Errorf("batch: no journal: %w", fs.ErrNotExist)
)

// lose forgets a file or batch that another server has removed.
func (s *Store) lose(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[id]; f != nil {
		delete(s.files, id)
		s.refunded(f.Owner, f.Bytes)
	}
	if s.claims[id] == nil {
		delete(s.batches, id)
	}
}

// leftFor is the age at which content without a description is considered left by a killed server.
const leftFor = 24 * time.Hour

// sweep removes data that killed servers have left.
func (s *Store) sweep(all []store.Entry, there map[string]bool) {
	for _, e := range all {
		id, data := strings.CutSuffix(e.Name, content)
		other, journal := strings.CutSuffix(e.Name, progress)
		s.mu.Lock()
		b := s.batches[other]
		s.mu.Unlock()
		if data && !there[id] && time.Since(e.Time) > leftFor ||
			journal && (b != nil && b.Status.ended() || b == nil && time.Since(e.Time) > leftFor) {
			_ = s.vault.remove(e.Name) // the next list tries again
		}
	}
}

// poll takes over batches that no server runs any more. It returns when the store is closed.
func (s *Store) poll() {
	const parts = 2 // polls per term
	tick := time.NewTicker(s.o.Fleet.Term() / parts)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.running.Done():
			return
		}
		if err := s.refresh(); err != nil {
			s.o.Log.Warn("the list of batches could not be read", "error", err.Error())
			continue
		}
		s.mu.Lock()
		clear(s.passed)
		for _, b := range s.batches {
			s.employ(b.Owner)
		}
		s.mu.Unlock()
	}
}

// claim makes this server the one that runs a batch. It returns false if that is not possible now.
func (s *Store) claim(b *Batch) (ok bool) {
	if s.o.Fleet == nil {
		return true
	}
	l, err := s.o.Fleet.Lock(sharedDir + "/" + b.ID + described)
	now := &Batch{}
	if err == nil {
		var data []byte
		if data, err = s.o.Fleet.Get(sharedDir + "/" + b.ID + described); err == nil {
			err = json.Unmarshal(data, now)
		}
		if err != nil {
			l.Release()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.passed[b.ID] = true // until the next poll
		return false
	}
	s.batches[b.ID], s.claims[b.ID] = now, l
	return true
}

// release allows other servers to run a batch.
func (s *Store) release(id string) {
	s.mu.Lock()
	l := s.claims[id]
	delete(s.claims, id)
	s.mu.Unlock()
	if l != nil {
		l.Release()
	}
}

// watch cancels a batch when another server takes it over.
func (s *Store) watch(ctx context.Context, id string, cancel context.CancelCauseFunc) {
	s.mu.Lock()
	l := s.claims[id]
	s.mu.Unlock()
	if l == nil {
		return
	}
	s.workers.Go(func() {
		select {
		case <-l.Lost():
			cancel(errTaken)
		case <-ctx.Done():
		}
	})
}

// changeElsewhere changes a batch that this server does not run. A server that runs it loses its lock.
func (s *Store) changeElsewhere(id string, f func(b *Batch)) error {
	name := sharedDir + "/" + id + described
	err := s.o.Fleet.Change(name, func(before []byte) ([]byte, error) {
		b := &Batch{}
		if err := json.Unmarshal(before, b); err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		f(b)
		s.batches[id] = b
		after, err := json.Marshal(b)
		if err == nil && bytes.Equal(before, after) {
			err = errSame
		}
		return after, err
	})
	if errors.Is(err, errSame) {
		return nil
	}
	return err
}

// errSame aborts a change that would have no effect.
var errSame = errors.New("batch: the same")
