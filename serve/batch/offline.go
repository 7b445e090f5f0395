package batch

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// Offline answers a file of requests without a store and without clients. Each line is a line of a batch for any of the
// endpoints, the body of a request alone, or a text to be scored. Results are in the order of the lines. Each has the
// number of its line and a hash of the line and By. So the results alone record the progress, and a run can continue
// after a process ended at any moment.
type Offline struct {
	In    string    // the path of the lines, or - for Stdin
	Stdin io.Reader // read once
	Out   string    // the path of the results
	// The lines are divided into Shards parts of about as many bytes each. Shard, from 1, is the part to answer. The
	// concatenated results of all parts are those of the whole. Shards below 1 means one part.
	Shard, Shards int
	By            string // identifies what answers, for the hash
	Endpoints     []string
	Do            func(context.Context, Request) (Response, error) // see Options
	Together      int                                              // requests that run at a time: 16
	MaxLine       int                                              // bytes of a line: 64 MiB
	Progress      func()                                           // called after each result; nil for none

	hasty bool // do not wait to see whether the holder of a lock is alive
}

// Tally counts the results of a file.
type Tally struct {
	Before int `json:"before"` // results found at the start
	Lines  int `json:"lines"`  // all results, including Before
	Failed int `json:"failed"` // failed results among Lines
}

// outcome is a line of an offline file's results.
type outcome struct {
	Line int    `json:"line"`
	Sum  string `json:"sum"`
	result
}

// outcomeStart is the prefix of every line of results.
const outcomeStart = `{"line":`

// sum returns the hash of a line and By, which identifies what a result answers.
func (o *Offline) sum(line []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s", o.By, bytes.TrimSpace(line))
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Run answers the lines that have no result yet. When ctx is done, it returns the error of ctx, with the results so far
// stored. If another process is writing the same results, it returns a *disk.LockedError.
func (o *Offline) Run(ctx context.Context) (t Tally, err error) {
	const together, maxLine = 16, 64 << 20
	filled := *o
	o = &filled
	if o.Shards < 1 {
		o.Shard, o.Shards = 1, 1
	}
	o.Together, o.MaxLine = cmp.Or(max(0, o.Together), together), cmp.Or(max(0, o.MaxLine), maxLine)
	in, size := o.Stdin, int64(-1)
	if o.In != "-" {
		file, info, err := disk.Open(o.In)
		if err != nil {
			return t, err
		}
		defer file.Close() // it was only read
		if at, err := os.Stat(o.Out); err == nil && os.SameFile(at, info) {
			return t, fmt.Errorf("out: found the file of the lines, %s, want another", o.Out)
		}
		in, size = file, info.Size()
	}
	if size < 0 && o.Shards > 1 {
		return t, fmt.Errorf("shard: found %d/%d and standard input, whose size is not known; want a file", o.Shard,
			o.Shards)
	}
	w := &offline{Offline: o, in: &items{lines: newLines(in, o.MaxLine), endpoints: o.Endpoints, offline: o}}
	w.from, w.to = size*int64(o.Shard-1)/int64(o.Shards), size*int64(o.Shard)/int64(o.Shards)
	err = disk.Claim(ctx, o.Out, !o.hasty, func(ctx context.Context) error {
		if w.out, err = openResults(o.Out); err != nil {
			return err
		}
		if err = w.resume(); err == nil {
			err = w.run(ctx)
		}
		return errors.Join(err, w.out.Close())
	})
	return w.tally, err
}

// results is the file of the results.
type results interface {
	io.ReadWriteCloser
	io.Seeker
	Truncate(size int64) error
	Sync() error
}

// openResults opens the file of the results. Tests replace it to limit the space.
var openResults = func(path string) (results, error) { return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666) }

// Parts answers the lines in the given number of parts, whose files are in the folder Out. It skips parts that other
// processes have locked, and returns their locks.
func (o *Offline) Parts(ctx context.Context, parts int) (all Tally, held []*disk.LockedError, err error) {
	var todo []int
	for k := range parts {
		todo = append(todo, k+1)
	}
	held, err = disk.EachFree(todo, func(k int, patient bool) error {
		part := *o
		part.Shard, part.Shards, part.hasty = k, parts, !patient
		part.Out = filepath.Join(o.Out, fmt.Sprintf("part-%0*d-of-%d.jsonl", len(fmt.Sprint(parts)), k, parts))
		t, err := part.Run(ctx)
		all.Before, all.Lines, all.Failed = all.Before+t.Before, all.Lines+t.Lines, all.Failed+t.Failed
		return err
	})
	return all, held, err
}

// Answer returns the result of one line, without a line number. It is for programs that get their lines from elsewhere.
// Its error is that of ctx.
func (o *Offline) Answer(ctx context.Context, line []byte) ([]byte, error) {
	r := &items{endpoints: o.Endpoints, offline: o}
	it := item{sum: o.sum(line)}
	it.problem = r.parse(line, &it)
	out, err := it.result(ctx, Request{ID: "line-" + it.sum, Endpoint: it.endpoint, Body: it.body}, o.Do)
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Sum string `json:"sum"`
		result
	}{it.sum, out})
}

// offline is a run of an Offline.
type offline struct {
	*Offline
	in       *items
	from, to int64 // bytes of the lines of the shard
	out      results
	end      int64 // size of the complete results
	synced   time.Time
	tally    Tally
}

// next returns the next item of the shard: one whose first byte is in the shard. The last error is io.EOF.
func (w *offline) next() (item, error) {
	for w.in.to < w.from {
		if _, err := w.in.line(); err != nil && !errors.Is(err, errLong) {
			return item{}, err
		}
	}
	if w.Shards > 1 && w.in.to >= w.to {
		return item{}, io.EOF
	}
	it, err := w.in.next()
	if err == nil && w.Shards > 1 && w.in.from >= w.to { // after empty lines
		return it, io.EOF
	}
	return it, err
}

// resume reads the existing results along with the lines that they answer, and truncates an incomplete one.
func (w *offline) resume() error {
	r := bufio.NewReaderSize(w.out, 64<<10)
	for {
		text, err := r.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		var was outcome
		whole := err == nil && json.Unmarshal(text, &was) == nil && was.Line > 0
		if _, more := r.Peek(1); !whole && (more == nil || !torn(text)) {
			return fmt.Errorf("%s: found %.60q after %d results, want a result of hippo score; choose another file",
				w.Out, text, w.tally.Lines)
		}
		if !whole {
			break
		}
		it, err := w.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err != nil || it.line != was.Line || it.sum != was.Sum {
			return fmt.Errorf("%s: found a result for line %d that is not one for line %d of %s, by the same model "+
				"and in the same shard; choose another file", w.Out, was.Line, it.line, w.In)
		}
		w.end += int64(len(text))
		w.count(&was)
	}
	w.tally.Before = w.tally.Lines
	if err := w.out.Truncate(w.end); err != nil {
		return err
	}
	_, err := w.out.Seek(w.end, io.SeekStart)
	return err
}

// torn reports whether a text may be a part of a result, or what a system crash left of one.
func torn(text []byte) bool {
	start := string(bytes.Trim(text, "\x00"))
	return strings.HasPrefix(start, outcomeStart) || strings.HasPrefix(outcomeStart, start)
}

func (w *offline) count(r *outcome) {
	w.tally.Lines++
	if !r.good() {
		w.tally.Failed++
	}
}

// answer is the result of a line, or the error that prevented one.
type answer struct {
	outcome
	err error
}

// ahead is the number of lines, for each concurrent request, that may be started before the oldest one is finished.
const ahead = 4

// run answers the remaining lines, several at a time, and writes the results in order.
func (w *offline) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	places := make(chan struct{}, w.Together)
	queue := make(chan chan answer, ahead*w.Together)
	var all sync.WaitGroup
	all.Go(func() {
		defer close(queue)
		for {
			it, err := w.next()
			if errors.Is(err, io.EOF) {
				return
			}
			slot := make(chan answer, 1)
			if err != nil {
				slot <- answer{err: err}
				queue <- slot
				return
			}
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				return
			}
			queue <- slot
			all.Go(func() {
				defer func() { <-places }()
				q := Request{ID: fmt.Sprint("line-", it.line), Endpoint: it.endpoint, Body: it.body}
				out, err := it.result(ctx, q, w.Do)
				slot <- answer{outcome{it.line, it.sum, out}, err}
			})
		}
	})
	err := w.write(queue)
	if err == nil {
		err = context.Cause(ctx)
	}
	cancel(err)
	for range queue { // discard the results
	}
	all.Wait()
	return err
}

// write writes results until one is missing.
func (w *offline) write(queue <-chan chan answer) error {
	var data []byte
	var some []outcome
	flush := func() error {
		if _, err := w.out.Write(data); err != nil {
			return errors.Join(fmt.Errorf("writing %s: %w (%d results are complete)", w.Out, err, w.tally.Lines),
				w.out.Truncate(w.end))
		}
		w.end += int64(len(data))
		for i := range some {
			if w.count(&some[i]); w.Progress != nil {
				w.Progress()
			}
		}
		data, some = data[:0], some[:0]
		if time.Since(w.synced) < time.Second { // guards against a system crash; a crash of the process loses nothing
			return nil
		}
		w.synced = time.Now()
		return w.out.Sync()
	}
	var missing error
	for missing == nil {
		slot, more, err := receive(queue, flush)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		a, _, err := receive(slot, flush)
		if err != nil {
			return err
		}
		if missing = a.err; missing != nil {
			break
		}
		text, err := json.Marshal(&a.outcome)
		if err != nil {
			return err
		}
		data, some = append(append(data, text...), '\n'), append(some, a.outcome)
		const much = 1 << 20
		if len(data) > much {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	w.synced = time.Time{} // sync now
	return errors.Join(missing, flush())
}

// receive receives from a channel. If it would have to wait, it first calls flush.
func receive[T any](from <-chan T, flush func() error) (v T, more bool, err error) {
	select {
	case v, more = <-from:
		return v, more, nil
	default:
	}
	if err = flush(); err == nil {
		v, more = <-from
	}
	return v, more, err
}
