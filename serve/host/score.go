package host

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/session"
)

// Token is a token with its log-probability given the tokens before it, and the most probable alternatives.
type Token struct {
	ID      int32
	Rank    int32   // 1 for the most probable token; 0 if not requested: see Wanted
	Known   bool    // false for the first token of a text
	LogProb float64 // rounded to a float32, as in sessions, so that a token has one value
	Top     []sample.TokenProb
}

// Wanted selects what is computed for the tokens of a text: the Top most probable alternatives, and ranks.
type Wanted struct {
	Top   int
	Ranks bool
}

// has reports whether tokens scored for w include what other wants.
func (w Wanted) has(other Wanted) bool { return w.Top >= other.Top && (w.Ranks || !other.Ranks) }

// ScoreToken returns an id with its log-probability, and the most probable alternatives.
func ScoreToken(logits []float32, id int32, top int) (Token, error) {
	p, err := sample.LogProbsOf(logits)
	if err != nil {
		return Token{}, err
	}
	out := Token{ID: id, Known: true, LogProb: p.Of(id), Top: p.Top(top)}
	most := out.LogProb
	if len(out.Top) > 0 {
		most = out.Top[0].LogProb
	}
	out.LogProb = single(out.LogProb, most)
	for i, x := range out.Top {
		out.Top[i].LogProb = single(x.LogProb, most)
	}
	return out, nil
}

// single rounds a log-probability to a float32. A value less than most remains less.
func single(x, most float64) float64 {
	y := float32(x)
	if x < most && y == float32(most) {
		y = math.Nextafter32(y, float32(math.Inf(-1)))
	}
	return float64(y)
}

// leastLogProb replaces the log-probability of an impossible token, since JSON has no infinity. OpenAI uses the same
// value.
const leastLogProb = -9999

// JSONLogProb returns a log-probability for JSON.
func JSONLogProb(logProb float64) float64 {
	if math.IsInf(logProb, -1) || logProb != logProb { // imported states may contain anything
		return leastLogProb
	}
	return logProb
}

// OpenScored is Open with a score for every id. It reuses cached scores, and reads from the last mark before their end.
func (m *Model) OpenScored(ctx context.Context, ids []int32, of Wanted, client string) (*generate.Batch, []Token,
	Cached, error) {
	keys := m.scores.keys(scopeOf(ctx), ids)
	known, release, err := m.scores.claim(ctx, keys, of)
	if err != nil {
		return nil, nil, Cached{}, err
	}
	release = sync.OnceFunc(release)
	defer release()
	// This needs the logits before the first unknown id, and a session at the end.
	r := &scoring{Model: m, ids: ids, of: of, client: client, out: make([]Token, len(ids))}
	copy(r.out, known)
	s, found := r.from(ctx, len(known))
	for _, to := range m.stops(len(known), found.Tokens, len(ids)) {
		if err := r.readTo(ctx, s, to); err != nil {
			return nil, nil, Cached{}, err
		}
		if whole := to / m.scores.chunk; whole == len(keys) && m.Texts != nil { // other texts may continue from here
			m.scores.keep(keys, r.out, of)
			release()
		}
	}
	m.scores.keep(keys, r.out, of)
	return s, r.out, found, nil
}

// stops returns the positions at which to stop reading and leave marks: the end of the cached scores, where the text
// diverges from others; the last two multiples of the chunk, where others may diverge from it; and its end.
func (m *Model) stops(known, cached, n int) []int {
	last := (n - 1) / m.scores.chunk * m.scores.chunk
	stops := []int{known, last - m.scores.chunk, last, n}
	slices.Sort(stops)
	return slices.DeleteFunc(slices.Compact(stops), func(at int) bool { return at <= cached })
}

// scoring is a text that is being read and scored.
type scoring struct {
	*Model
	ids    []int32
	of     Wanted
	client string
	out    []Token
	mu     sync.Mutex
	broken error
}

// from returns a session at or before a position where a block of scores ends, with logits unless it is at the start,
// and how much was cached.
func (r *scoring) from(ctx context.Context, at int) (*generate.Batch, Cached) {
	was := Cached{Miss: "no log-probabilities of it are kept"}
	if texts := r.TextsOf(ctx); texts != nil && at > 0 {
		found := texts.Find(ctx, []session.Segment{{IDs: r.ids[:at]}})
		was = cachedOf(found)
		if mark := found.Snapshot; mark != nil {
			s := mark.Session(r.Net)
			if mark.Logits != nil { // an earlier mark may have none: the next ids are scored
				r.tell(s.Position(), s.Logits(0))
			}
			return s, was
		}
	}
	r.out[0] = Token{ID: r.ids[0]}
	s := generate.NewBatch(r.Net, 1)
	s.Chunk = r.scores.chunk
	was.Tokens = 0
	return s, was
}

// tell scores the id at a position. Several goroutines may call it at once.
func (r *scoring) tell(at int, logits []float32) {
	if at >= len(r.ids) {
		return
	}
	var err error
	if r.out[at], err = ScoreToken(logits, r.ids[at], r.of.Top); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.broken = cmp.Or(r.broken, err)
	}
	if r.of.Ranks {
		r.out[at].Rank = rank(logits, r.ids[at])
	}
}

// rank returns the rank of an id, 1 for the most probable. Among equally probable ids, lower ids come first.
func rank(logits []float32, id int32) (n int32) {
	n = 1
	for i, x := range logits {
		if x > logits[id] || x == logits[id] && int32(i) < id {
			n++
		}
	}
	return n
}

// readTo reads up to a position and leaves a mark there.
func (r *scoring) readTo(ctx context.Context, s *generate.Batch, to int) error {
	from := s.Position()
	err := r.Runner.Run(ctx, &session.Request{
		Session: s, Segments: []session.Segment{{IDs: r.ids[from:to]}}, Client: r.client,
		Each: func(at int, logits []float32) { r.tell(from+at+1, logits) },
	})
	if err == nil {
		err = r.broken
	}
	if err != nil || r.Texts == nil {
		return err
	}
	return r.TextsOf(ctx).Put(ctx, []session.Segment{{IDs: r.ids[:to]}}, nil, session.Take(s))
}
