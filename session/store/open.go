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

// Reading is a request to read a text.
type Reading struct {
	Runner session.Runner
	Plan   []session.Segment

	// Progress, unless it is nil, is called with the number of ids read so far, without the cached ones.
	Progress func(read, total int)
	// Client and Priority are copied to session.Request.
	Client   string
	Priority int
}

// Open returns a session at the end of a text, with logits and with the same bits as reading all of it. It reads only
// the part that is not cached. It sets marks where the text diverges from others, at its end, and at multiples of the
// chunk that are closer together near the end. If a later text diverges from this one, at most as many ids are read
// again as this one has after the divergence, plus one piece. Found describes the cache before the call. If ctx is
// done, the ids read so far are cached, and another call continues from there.
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

// Score returns the log-probabilities of the ids from position from on, each given all ids before it. The first id of a
// text has NaN. Cached ids are not read again: if many texts start with the same segment, it is read once. Found
// describes the cache before the call.
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

// turn holds the state of one call of Open or Score.
type turn struct {
	Reading
	store   *Store
	r       *reading
	keys    []key
	found   *Found
	session *generate.Batch
	logp    []float32 // log-probabilities of all ids
	from    int       // the first id whose log-probability is wanted, or the length of the text
	known   int       // the first id from there on whose log-probability is unknown
	stops   []int     // positions at which to stop and set marks
	bare    []int     // those of stops whose marks need no logits
	claims  []claim

	released int // value of core.released when the turn last looked
}

// start looks up a text whose log-probabilities are wanted from id from on. If another turn is about to read a part of
// the text, start waits for that turn, once.
func (s *Store) start(ctx context.Context, g Reading, from int) (*turn, error) {
	t := &turn{Reading: g, store: s, r: read(g.Plan, s.o.Identity.Chunk), from: from}
	if t.r.len() == 0 {
		return nil, errors.New("store: a text without ids")
	}
	t.keys = t.r.keys(s.origin)
	for waits, looks := true, 1; ; looks++ {
		t.look(ctx)
		wait, claimed := t.claim(waits)
		switch {
		case claimed:
			return t, nil
		case wait == nil:
			waits = looks < mostLooks
			continue
		}
		select {
		case <-wait:
			waits = false
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// mostLooks limits how often a turn looks again because other turns have set marks meanwhile.
const mostLooks = 8

// look finds the best mark to continue from and chooses the stops.
func (t *turn) look(ctx context.Context) {
	t.store.mu.Lock()
	t.released = t.store.released
	t.store.mu.Unlock()
	t.find(ctx, t.r.len())
	for t.known = max(t.from, 1); t.known < t.r.len() && !isUnknown(t.logp[t.known]); {
		t.known++
	}
	// The first unknown log-probability needs the logits before it: from a mark there, or from reading up to there.
	if t.known < t.r.len() && t.found.Cached >= t.known {
		t.find(ctx, t.known)
		if m := t.found.Snapshot; m != nil && m.Position == t.known && m.Logits == nil {
			t.find(ctx, t.known-1)
		}
	}
	t.stops, t.bare = nil, nil
	if t.scores() && t.known >= t.r.len() {
		return
	}
	// Stop where this text diverges from others, before the first wanted log-probability, on the ladder, before the
	// last segment unless that is near, and at the end.
	n := t.r.len()
	stops := []int{t.found.Shared, n}
	if last := n - len(t.Plan[len(t.Plan)-1].IDs); last >= t.found.Cached+fewest {
		stops = append(stops, last)
	}
	if t.known < n {
		stops = append(stops, t.r.lastCut(t.known))
	}
	for _, at := range ladder(n, t.store.o.Identity.Chunk) {
		if !slices.Contains(stops, at) {
			stops, t.bare = append(stops, at), append(t.bare, at)
		}
	}
	slices.Sort(stops)
	t.stops = slices.DeleteFunc(slices.Compact(stops), func(at int) bool { return at <= t.found.Cached })
}

// scores reports whether log-probabilities are wanted.
func (t *turn) scores() bool { return t.from < t.r.len() }

// find sets t.found to the best mark at or before position most.
func (t *turn) find(ctx context.Context, most int) {
	t.found = t.store.find(ctx, t.r, t.keys, most)
	t.logp = slices.Clone(t.found.LogProbs)
	for len(t.logp) < t.r.len() {
		t.logp = append(t.logp, unknown)
	}
}

// readAll reads the ids that are not cached.
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

// ladder returns the positions of marks before the end of a text, at roughly doubling distances: the last multiple of
// one chunk, then the last multiple of two chunks before it, then that of four chunks, and so on. Two texts with a
// common prefix share most of them.
func ladder(n, chunk int) (out []int) {
	for at, step := (n-1)/chunk*chunk, chunk; at > 0; at, step = (at-1)/(2*step)*2*step, 2*step {
		out = append(out, at)
	}
	return out
}

// readTo reads up to a position and sets a mark there.
func (t *turn) readTo(ctx context.Context, to int, score bool) error {
	from := t.session.Position()
	q := &session.Request{
		Session: t.session, Segments: part(t.Plan, from, to), Client: t.Client, Priority: t.Priority,
		Silent: slices.Contains(t.bare, to) && !score,
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
		switch err := t.store.put(ctx, t.r.until(at), t.keys, logp, false, session.Take(t.session)); {
		case err == nil:
			t.found.Kept = at
		case errors.Is(err, ErrTooLarge):
			t.found.TooLarge = true
		}
		t.release(at)
	}
	return err
}

// note stores the log-probability of the id at position at, if the session has logits.
func (t *turn) note(at int) {
	if logits := t.session.Logits(0); logits != nil {
		t.tell(at, logits)
	}
}

// tell stores the log-probability of id at, computed from the logits before it.
func (t *turn) tell(at int, logits []float32) {
	if at < t.r.len() {
		t.logp[at] = float32(sample.LogProb(logits, int32(t.r.syms[at]>>1)))
	}
}
