package batch

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Status is the status of a batch.
type Status string

// The statuses. The last four are final.
const (
	Validating Status = "validating" // queued, or its file is being checked
	InProgress Status = "in_progress"
	Finalizing Status = "finalizing" // its output is being written
	Cancelling Status = "cancelling"
	Completed  Status = "completed"
	Failed     Status = "failed"
	Cancelled  Status = "cancelled"
	Expired    Status = "expired"
)

// ended reports whether a status is final.
func (s Status) ended() bool {
	return slices.Contains([]Status{Completed, Failed, Cancelled, Expired}, s)
}

// Problem is a reason why a batch has failed.
type Problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"`
	Line    int    `json:"line,omitempty"` // from 1; 0 for none
}

// Counts are the numbers of requests of a batch.
type Counts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
}

// Batch describes a batch.
type Batch struct {
	ID       string               `json:"id"`
	Owner    string               `json:"owner"`
	Endpoint string               `json:"endpoint"`
	Input    string               `json:"input"` // ids of files
	Output   string               `json:"output,omitempty"`
	Errors   string               `json:"errors,omitempty"`
	Window   string               `json:"window"`
	Status   Status               `json:"status"`
	Problems []Problem            `json:"problems,omitempty"`
	Metadata map[string]string    `json:"metadata,omitempty"`
	Counts   Counts               `json:"counts"`
	Created  time.Time            `json:"created"`
	Expires  time.Time            `json:"expires"`
	At       map[Status]time.Time `json:"at"`            // when the batch got each status
	End      Status               `json:"end,omitempty"` // final status of a batch that is finalizing

	// Ids of the files being written, chosen in advance so that a restart does not write them twice.
	NextOutput string `json:"next_output,omitempty"`
	NextErrors string `json:"next_errors,omitempty"`
}

// Prefixes of ids: of batches of clients' files, and of batches with their own files.
const (
	batchPrefix = "batch_"
	ownPrefix   = "msgbatch_" // as Anthropic's
)

// Own reports whether a batch has its own files, which are not listed.
func (b *Batch) Own() bool { return strings.HasPrefix(b.ID, ownPrefix) }

// OpenAI's limits on metadata.
const (
	maxMetadata      = 16
	maxMetadataKey   = 64
	maxMetadataValue = 512
)

// maxWindow is the maximum completion window of a batch.
const maxWindow = 7 * 24 * time.Hour

// FieldError is the error of a field of a batch request.
type FieldError struct{ Field, Message string }

// Error names the field and describes its error.
func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

func wrong(field, format string, args ...any) error {
	return &FieldError{field, fmt.Sprintf(format, args...)}
}

// Wish is a client's request for a batch.
type Wish struct {
	Input    string // id of a file
	Endpoint string
	Window   string // completion window, such as 24h
	Metadata map[string]string
}

// AddBatch starts a batch.
func (s *Store) AddBatch(owner string, w Wish) (Batch, error) {
	window, err := time.ParseDuration(w.Window)
	switch {
	case w.Input == "":
		return Batch{}, wrong("input_file_id", "found nothing, want the id of a file")
	case !slices.Contains(s.o.Endpoints, w.Endpoint):
		return Batch{}, wrong("endpoint", "found %.60q, want one of %s", w.Endpoint, strings.Join(s.o.Endpoints, ", "))
	case err != nil || window <= 0 || window > maxWindow:
		return Batch{}, wrong("completion_window", "found %.60q, want a time such as 24h, up to %v", w.Window,
			maxWindow)
	case len(w.Metadata) > maxMetadata:
		return Batch{}, wrong("metadata", "found %d keys, want at most %d", len(w.Metadata), maxMetadata)
	}
	for key, value := range w.Metadata {
		if len(key) > maxMetadataKey || len(value) > maxMetadataValue {
			return Batch{}, wrong("metadata", "found a key of %d bytes with a value of %d, want at most %d and %d",
				len(key), len(value), maxMetadataKey, maxMetadataValue)
		}
	}
	f, err := s.File(owner, w.Input)
	if err != nil {
		return Batch{}, fmt.Errorf("input_file_id: %w", err)
	}
	if f.Purpose != PurposeBatch {
		return Batch{}, wrong("input_file_id", "found a file with the purpose %s, want %s", f.Purpose, PurposeBatch)
	}
	now := time.Now()
	b := &Batch{
		ID: batchPrefix + rand.Text(), Owner: owner, Endpoint: w.Endpoint, Input: w.Input, Window: w.Window,
		Status: Validating, Metadata: maps.Clone(w.Metadata), Created: now, Expires: now.Add(window),
		At: map[Status]time.Time{},
	}
	if err := s.refresh(); err != nil {
		return Batch{}, err
	}
	return s.start(b)
}

// AddOwn starts a batch of n requests, which fill writes one per line. It must end within a day. The batch owns its
// files.
func (s *Store) AddOwn(owner, endpoint string, n int, fill func(io.Writer) error) (Batch, error) {
	const window = 24 * time.Hour
	if n > s.o.MaxLines {
		return Batch{}, because(ErrLimit, "found %d requests, want at most %d", n, s.o.MaxLines)
	}
	now := time.Now()
	b := &Batch{
		ID: ownPrefix + rand.Text(), Owner: owner, Endpoint: endpoint, Status: Validating, Counts: Counts{Total: n},
		Created: now, Expires: now.Add(window), At: map[Status]time.Time{},
	}
	f, err := s.addFile(owner, b.ID, s.o.MaxFile, func(w io.Writer) (string, error) { return "", fill(w) })
	if err != nil {
		return Batch{}, err
	}
	b.Input = f.ID
	started, err := s.start(b)
	if err != nil {
		err = errors.Join(err, s.DeleteFile(owner, f.ID))
	}
	return started, err
}

// start stores a batch and starts it. The caller must have called refresh.
func (s *Store) start(b *Batch) (Batch, error) {
	owner := b.Owner
	s.saving.Lock()
	defer s.saving.Unlock()
	if err := s.room(owner); err != nil {
		return Batch{}, err
	}
	if err := s.describe(b.ID, b); err != nil {
		return Batch{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches[b.ID] = b
	s.employ(owner)
	return b.copied(), nil
}

// keptBatches is the maximum number of batches of an owner. The oldest finished batches are removed first.
const keptBatches = 10000

// room makes room for another batch. It removes a finished one if needed.
func (s *Store) room(owner string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrLater
	}
	n, all := 0, 0
	var oldest *Batch
	for _, b := range s.batches {
		if b.Owner != owner {
			continue
		}
		if all++; !b.Status.ended() {
			n++
		} else if oldest == nil || b.Created.Before(oldest.Created) {
			oldest = b
		}
	}
	if n >= s.o.MaxBatches {
		return because(ErrLimit, "found %d batches that have not ended, as many as you may have", n)
	}
	if all < keptBatches || oldest == nil {
		return nil
	}
	return s.forget(oldest)
}

// forget removes a finished batch and the files that belong to it. mu must be held.
func (s *Store) forget(b *Batch) error {
	if err := s.vault.remove(b.ID + described); err != nil {
		return err
	}
	delete(s.batches, b.ID)
	return s.dropOf(b.ID)
}

// dropOf removes the files that belong to a batch. mu must be held.
func (s *Store) dropOf(id string) (err error) {
	for _, f := range s.files {
		if f.Of == id {
			err = errors.Join(err, s.drop(f))
		}
	}
	return err
}

// DeleteOwn removes an owner's finished batch with its files.
func (s *Store) DeleteOwn(owner, id string) error {
	if err := s.refresh(); err != nil { // another server may have written its files
		return err
	}
	if _, err := s.Batch(owner, id, true); err != nil {
		return err
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.batches[id]
	switch {
	case b == nil:
		return nil // another request has deleted it
	case !b.Status.ended():
		return because(ErrInUse, "batch %s: found it %s, want one that has ended: cancel it first", id, b.Status)
	}
	return s.forget(b)
}

// copied returns a copy that does not change with the batch.
func (b *Batch) copied() Batch {
	c := *b
	c.Metadata, c.At, c.Problems = maps.Clone(b.Metadata), maps.Clone(b.At), slices.Clone(b.Problems)
	return c
}

// Batch returns an owner's batch. own selects batches with their own files, or the others.
func (s *Store) Batch(owner, id string, own bool) (Batch, error) {
	if err := s.look(id, true); err != nil {
		return Batch{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.batches[id]
	if b == nil || b.Owner != owner || b.Own() != own {
		return Batch{}, fmt.Errorf("batch %.60q: %w", id, ErrNotFound)
	}
	return b.copied(), nil
}

// Batches returns a page of an owner's batches and whether more follow. own selects batches as in Batch.
func (s *Store) Batches(owner string, own bool, p Page) ([]Batch, bool, error) {
	if err := s.refresh(); err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out, more, err := paged(s.batches, p, func(b *Batch) bool { return b.Owner == owner && b.Own() == own },
		func(b *Batch) (time.Time, string) { return b.Created, b.ID })
	for i := range out {
		out[i] = out[i].copied()
	}
	return out, more, err
}

// Cancel ends an owner's batch, with the results of finished requests as output. A finished batch does not change.
func (s *Store) Cancel(owner, id string, own bool) (Batch, error) {
	if _, err := s.Batch(owner, id, own); err != nil {
		return Batch{}, err
	}
	err := s.change(id, func(b *Batch) {
		if b.Status == Validating || b.Status == InProgress {
			b.stand(Cancelling)
			if cancel := s.cancels[id]; cancel != nil {
				cancel(errCancelled)
			}
		}
	})
	if err != nil {
		return Batch{}, err
	}
	s.mu.Lock()
	delete(s.passed, id) // the server that ran it has lost it
	s.employ(owner)
	s.mu.Unlock()
	return s.Batch(owner, id, own)
}

// stand sets the status of a batch. Store.mu must be held.
func (b *Batch) stand(at Status) {
	b.Status = at
	b.At[at] = time.Now()
}

// change changes a batch and stores its description.
func (s *Store) change(id string, f func(b *Batch)) error {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	l, b := s.claims[id], s.batches[id]
	if s.o.Fleet != nil && l == nil {
		s.mu.Unlock()
		return s.changeElsewhere(id, f)
	}
	if b == nil { // the batch was deleted meanwhile
		s.mu.Unlock()
		return fmt.Errorf("batch %.60q: %w", id, ErrNotFound)
	}
	f(b)
	c := b.copied()
	s.mu.Unlock()
	if l != nil {
		data, err := json.Marshal(&c)
		if err != nil {
			return err
		}
		return l.Put(data, false)
	}
	return s.describe(id, &c)
}
