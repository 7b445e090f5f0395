package batch

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
)

// fail ends a batch with a problem and the output so far. If the output cannot be written, the batch ends without it.
func (r *run) fail(p Problem) error {
	writes := false
	err := r.s.change(r.b.ID, func(b *Batch) {
		b.Problems = append(b.Problems, p)
		writes = b.End == "" // otherwise writing the output has failed
	})
	if err == nil && writes && r.finish(Failed) == nil {
		return nil
	}
	r.s.refund(r.b.Owner, r.paid)
	r.paid = 0
	err = r.s.change(r.b.ID, func(b *Batch) { b.stand(Failed) })
	return errors.Join(err, r.drop())
}

// drop removes the journal.
func (r *run) drop() error {
	if err := r.s.vault.remove(r.name()); err != nil && !gone(err) {
		return err
	}
	return nil
}

// finish writes the output and ends the batch.
func (r *run) finish(end Status) (err error) {
	if r.done, err = readJournal(r.s.vault, r.name()); err != nil {
		return err
	}
	good := r.done.counts.Completed
	err = r.s.change(r.b.ID, func(b *Batch) {
		if b.End == "" {
			b.End, b.NextOutput, b.NextErrors = end, filePrefix+rand.Text(), filePrefix+rand.Text()
			b.stand(Finalizing)
		}
		r.b = b.copied()
	})
	if err != nil {
		return err
	}
	r.s.refund(r.b.Owner, r.paid) // for the journal, which the output replaces
	r.paid = 0
	var output, faults string
	if good > 0 {
		output, err = r.b.NextOutput, r.file(r.b.NextOutput, "output", true)
	}
	if err == nil && (good < len(r.done.marks) || r.b.tellsAll()) {
		faults, err = r.b.NextErrors, r.file(r.b.NextErrors, "errors", false)
	}
	if err != nil {
		return err
	}
	err = r.s.change(r.b.ID, func(b *Batch) {
		b.Output, b.Errors = output, faults
		total := b.Counts.Total
		b.Counts = r.done.counts
		b.Counts.Total = total
		b.stand(b.End)
	})
	if err != nil {
		return err
	}
	r.s.o.Log.Info("batch", slog.String("batch", r.b.ID), slog.String("status", string(r.b.End)))
	return r.drop()
}

// file writes the successful or the failed results as a file.
func (r *run) file(id, what string, good bool) error {
	if _, err := r.s.File(r.b.Owner, id); err == nil {
		return nil // the process ended after writing it
	}
	f := &File{ID: id, Owner: r.b.Owner, Purpose: PurposeOutput, Name: r.b.ID + "_" + what + ".jsonl"}
	if r.b.Own() {
		f.Of = r.b.ID
	}
	return r.s.keep(f, 0, func(w io.Writer) error {
		if err := r.done.write(w, r.s.vault, r.name(), good); err != nil || good || !r.b.tellsAll() {
			return err
		}
		return r.late(w)
	})
}

// Error codes of requests that were not run.
const (
	CodeExpired   = "batch_expired"
	CodeCancelled = "batch_cancelled"
)

// tellsAll reports whether the file of errors has an error for each request without a response.
func (b *Batch) tellsAll() bool { return b.End == Expired || b.Own() && b.End != Completed }

// left returns the error of a request without a response.
func (b *Batch) left() *fault {
	switch b.End {
	case Expired:
		return &fault{CodeExpired, "the request was not answered before the batch's completion_window ended"}
	case Cancelled:
		return &fault{CodeCancelled, "the batch was cancelled before the request was answered"}
	}
	return &fault{"batch_failed", "the batch has failed before the request was answered"}
}

// late writes an error for each request that got no response in time.
func (r *run) late(w io.Writer) error {
	file, err := r.s.vault.open(r.b.Input + content)
	if err != nil {
		return err
	}
	defer file.Close() // the file was only read
	in := r.items(file)
	for {
		it, err := in.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if r.done.lines[it.line] {
			continue
		}
		text, err := json.Marshal(result{
			ID: "batch_req_" + rand.Text(), CustomID: it.CustomID, Error: r.b.left(),
		})
		if err != nil {
			return err
		}
		if _, err := w.Write(append(text, '\n')); err != nil {
			return err
		}
	}
}
