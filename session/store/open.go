package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/session"
)

// Reading is a text to be read.
type Reading struct {
	Runner session.Runner
	Plan   []session.Segment

	// Progress, unless it is nil, is called with how many of the ids that are not stored have been read.
	Progress func(read, total int)
	// Client and Priority are those of session.Request.
	Client   string
	Priority int
}

// Open returns a session at the end of a text, with logits: the bits are those of reading all of it, but only what is
// not stored is read. It leaves marks where the text parts from others, at its end, and at multiples of the chunk on
// the way, the closer to each other the nearer the end: from wherever a later text parts, at most as many ids are read
// again as this one has after that place, or a piece. Found says what was there before. After the error of a context
// what has been read is stored, so that opening the same text again continues from there.
func (s *Store) Open(ctx context.Context, g Reading) (*generate.Batch, *Found, error) {
	t, err := s.start(ctx, g, math.MaxInt)
	if err != nil {
		return nil, nil, err
	}
	defer t.release(math.MaxInt)
	if err := t.readAll(ctx); err != nil {
		return nil, t.found, err
	}
	return t.session, t.found, nil
}

// Score returns the log-probabilities of the ids from a position on, each given all before it; the first id of a text
// has none, which is NaN. What is stored is not read again: if many texts have a beginning in common that is a segment
// of its own, it is read once. Found says what was there before.
func (s *Store) Score(ctx context.Context, g Reading, from int) ([]float32, *Found, error) {
	if from < 0 {
		return nil, nil, fmt.Errorf("store: log-probabilities from id %d on", from)
	}
	t, err := s.start(ctx, g, from)
	if err != nil {
		return nil, nil, err
	}
	defer t.release(math.MaxInt)
	if from > t.r.len() {
		return nil, t.found, fmt.Errorf("store: log-probabilities from id %d on of %d", from, t.r.len())
	}
	if t.known < t.r.len() {
		if err := t.readAll(ctx); err != nil {
			return nil, t.found, err
		}
	}
	return t.logp[from:], t.found, nil
}

// turn is the reading of one text.
type turn struct {
	Reading
	store   *Store
	r       *reading
	keys    []key
	found   *Found
	session *generate.Batch
	logp    []float32 // of all ids
	from    int       // the first id whose log-probability is wanted, or more than there are
	known   int       // the first one wanted that is not stored
	stops   []int     // where to stop reading, to leave marks
	claims  []claim
}

// start looks for a text, of which log-probabilities are wanted from an id on. If others are about to read a part of
// it, it waits for them, once.
func (s *Store) start(ctx context.Context, g Reading, from int) (*turn, error) {
	t := &turn{Reading: g, store: s, r: read(g.Plan, s.o.Identity.Chunk), from: from}
	if t.r.len() == 0 {
		return nil, errors.New("store: a text without ids")
	}
	t.keys = t.r.keys(s.origin)
	t.look(ctx)
	if wait := t.claim(true); wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		t.look(ctx)
		t.claim(false)
	}
	return t, nil
}

// look looks for the best mark to read from.
func (t *turn) look(ctx context.Context) {
	t.find(ctx, t.r.len())
	for t.known = max(t.from, 1); t.known < t.r.len() && !isUnknown(t.logp[t.known]); {
		t.known++
	}
	// The logits before the first unknown one are needed: of a mark there, or from reading up to there.
	if t.known < t.r.len() && t.found.Cached >= t.known {
		t.find(ctx, t.known)
		if m := t.found.Snapshot; m != nil && m.Position == t.known && m.Logits == nil {
			t.find(ctx, t.known-1)
		}
	}
	t.stops = nil
	if t.scores() && t.known >= t.r.len() {
		return
	}
	// Where this text parts from others, before the first wanted log-probability, on the ladder, before the last
	// segment, and at the end.
	n := t.r.len()
	stops := append(ladder(n, t.store.o.Identity.Chunk), n-len(t.Plan[len(t.Plan)-1].IDs), t.found.Shared, n)
	if t.known < n {
		stops = append(stops, t.r.lastCut(t.known))
	}
	slices.Sort(stops)
	t.stops = slices.DeleteFunc(slices.Compact(stops), func(at int) bool { return at <= t.found.Cached })
}

// scores reports whether log-probabilities are wanted.
func (t *turn) scores() bool { return t.from < t.r.len() }

// find looks for the best mark at or before a position.
func (t *turn) find(ctx context.Context, most int) {
	t.found = t.store.find(ctx, t.r, t.keys, most)
	t.logp = slices.Clone(t.found.LogProbs)
	for len(t.logp) < t.r.len() {
		t.logp = append(t.logp, unknown)
	}
}

// readAll reads what is not stored.
func (t *turn) readAll(ctx context.Context) error {
	if m := t.found.Snapshot; m != nil {
		t.session = m.Session(t.store.o.Model)
		t.note(m.Position)
	} else {
		t.session = generate.NewBatch(t.store.o.Model, 1)
	}
	t.session.Chunk = t.store.o.Identity.Chunk
	for _, stop := range t.stops {
		if err := t.readTo(ctx, stop, t.scores() && stop > t.known); err != nil {
			return err
		}
	}
	return nil
}

// ladder are the places of marks before the end of a text: the last multiple of the chunk, the last but one of two
// chunks, of four, and so on. So texts of which one is the start of the other have most of them in common.
func ladder(n, chunk int) (out []int) {
	for at, step := (n-1)/chunk*chunk, chunk; at > 0; at, step = (at-1)/(2*step)*2*step, 2*step {
		out = append(out, at)
	}
	return out
}

// readTo reads up to a position, and leaves a mark there.
func (t *turn) readTo(ctx context.Context, to int, score bool) error {
	from := t.session.Position()
	q := &session.Request{
		Session: t.session, Segments: part(t.Plan, from, to), Client: t.Client, Priority: t.Priority,
	}
	if t.Progress != nil {
		total, before := t.r.len()-t.found.Cached, from-t.found.Cached
		q.Progress = func(read, _ int) { t.Progress(before+read, total) }
	}
	if score {
		q.Each = func(at int, logits []float32) { t.tell(from+at+1, logits) }
	}
	err := t.Runner.Run(ctx, q)
	at := t.session.Position()
	if at > from && t.r.isCut(at) {
		var logp []float32
		if t.scores() {
			t.note(at)
			logp = t.logp[:at]
		}
		t.store.put(ctx, t.r.until(at), t.keys, logp, false, session.Take(t.session))
		t.release(at)
	}
	return err
}

// note takes the log-probability of the id after where the session stands.
func (t *turn) note(at int) {
	if logits := t.session.Logits(0); logits != nil {
		t.tell(at, logits)
	}
}

// tell takes the log-probability of an id from the logits before it.
func (t *turn) tell(at int, logits []float32) {
	if at < t.r.len() {
		t.logp[at] = float32(sample.LogProb(logits, int32(t.r.syms[at]>>1)))
	}
}
