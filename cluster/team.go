package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

// Work is the computation of a step by its members. The goroutine that calls Team.Step calls the methods. Another
// goroutine may call Values at the same time.
type Work interface {
	// Rows returns what a member needs to compute a shard, and Take stores each element of it there. The leader has all
	// rows. anew reports that the member has not computed the shard in the step before.
	Rows(shard int, anew bool) [][]byte
	Take(shard int, rows []byte) error
	// Compute computes a shard and adds it to its tree. If ready is not nil, Compute may call it meanwhile to report
	// that numbers from lo to before hi of the node that the shard completes are final. Each number may be reported
	// only once. Final numbers are sent while Compute goes on.
	Compute(shard int, ready func(lo, hi int)) (Result, error)
	// Values copies the final numbers of a node from index at on to dst.
	Values(n Node, at int, dst []float32)
}

// Failing is Work on a device that may fail, which makes the numbers of Values wrong. A member calls Failed before it
// reports that it has all sums.
type Failing interface {
	Work
	Failed() error
}

// Lasting is Work whose shards have a state. The state stays with the member that has computed the shard, so shards are
// dealt anew only if a member has joined or is lost. If Bits returns less than 32, the numbers of a shard have that
// many bits (see RoundTo), and each shard is sent on its own, not in a sum.
type Lasting interface {
	Work
	Bits() int
	// Again returns why no other member can compute a shard of a lost member, or nil if others can.
	Again(shard int) error
	// State returns the state of a shard after the last step, in parts for the leader. Keep stores one part of it, and
	// reports whether the state is whole.
	State(shard int) [][]byte
	Keep(shard int, state []byte) (whole bool, err error)
}

// Result holds the mean loss of a shard and the weight of that mean.
type Result struct{ Mean, Weight float64 }

// Outcome is what all members know when a sum counts.
type Outcome struct {
	Loss, Count Float // the mean loss, and the number by which the sum is divided
	Factor      Float // of the learning rate, from the leader
	Alone       bool  `json:"-"` // one member has computed all shards: its root node is the sum
}

// Float is a float64 that JSON stores by its bits, so that it may be any number.
type Float float64

func (f Float) MarshalJSON() ([]byte, error) { return json.Marshal(math.Float64bits(float64(f))) }

func (f *Float) UnmarshalJSON(text []byte) error {
	var bits uint64
	err := json.Unmarshal(text, &bits)
	*f = Float(math.Float64frombits(bits))
	return err
}

// Team is the part of one member in a run. Only one goroutine may call its methods.
type Team struct {
	wire Wire
	now  func() time.Time

	members []Member // of the round, the leader first
	round   order
	results map[int]Result // of shards of the step
	mine    map[int]bool   // shards computed here
	nodes   []Node         // of the round
	by      []ID
	shards  int // of the step
	bits    int // of a number of a node in a message
	early   []Message
	seconds float64 // spent on the shards computed here in this step

	kept    Keeper       // nil if every member keeps everything
	keepers []ID         // the members that keep parts, in the order of the ring
	dealt   deal         // the last one
	at      map[int]int  // by part expected in that deal: how many numbers have arrived
	wanted  map[int]bool // parts of this step without new weights here
	pieces  []Message    // that belong to a later deal

	lead *leading // nil unless this member leads
}

// order is the body of a Round message.
type order struct {
	Round   uint64   `json:"round"`
	Step    int      `json:"step"`
	Holders []ID     `json:"holders"` // of each shard
	Members []Member `json:"members"`
	Keepers []ID     `json:"keepers,omitempty"` // of parts, in the order of the ring
}

// report is the body of a Done message.
type report struct {
	Results map[int]shardResult `json:"results"`
	Seconds float64             `json:"seconds"` // per shard
}

type shardResult struct{ Mean, Weight Float }

// chunk is how many numbers are exchanged at once. Tests make it small.
var chunk = 1 << 16

// errAgain reports that a round cannot be completed, and that another follows.
var errAgain = errors.New("a member is lost")

// Step computes the sum of the shards of a step, together with all members. sum must have the sum's length, and is
// filled unless the outcome is Alone. factor, of the learning rate, counts only at the leader, whose value all members
// get in the Outcome. The error is one of Work, *LossError at the leader, or ErrLeaderGone or *EndedError at others. It
// is that of ctx if ctx is done while another member waits for the step to begin.
func (t *Team) Step(ctx context.Context, step, shards int, factor float64, w Work, sum []float32) (Outcome, error) {
	t.results, t.mine, t.seconds, t.shards = map[int]Result{}, map[int]bool{}, 0, shards
	t.bits = float32Bits
	if lasting, ok := w.(Lasting); ok {
		t.bits = lasting.Bits()
	}
	if t.lead != nil {
		return t.leadStep(step, shards, factor, w, sum)
	}
	if err := t.await(ctx, step, w); err != nil {
		return Outcome{}, err
	}
	for {
		outcome, err := t.attempt(w, sum)
		if !errors.Is(err, errAgain) {
			return outcome, err
		}
	}
}

// await waits for the round that begins a step.
func (t *Team) await(ctx context.Context, step int, w Work) error {
	for {
		m, err := t.wire.Receive(ctx)
		if err != nil {
			return err
		}
		if m.Kind == Part || m.Kind == Sum { // from a member that has the order already
			t.early = append(t.early, m)
		} else if _, err = t.take(m, w); errors.Is(err, errAgain) {
			if t.round.Step != step {
				return fmt.Errorf("%s: round: found step %d, want %d", t.name(Lead), t.round.Step, step)
			}
			return nil
		} else if err != nil {
			return err
		}
	}
}

// attempt computes the shards of this member in the round and exchanges the nodes.
func (t *Team) attempt(w Work, sum []float32) (Outcome, error) {
	x := t.newExchange(w, sum)
	defer x.stop()
	for shard, id := range x.round.Holders {
		if id != t.wire.Self() {
			continue
		}
		if !t.mine[shard] {
			start := t.now()
			x.spent = 0
			r, err := w.Compute(shard, x.during(shard))
			if err != nil {
				return Outcome{}, err
			}
			t.seconds += (t.now().Sub(start) - x.spent).Seconds()
			t.mine[shard], t.results[shard] = true, r
		}
		if x.failed != nil {
			return Outcome{}, x.failed
		}
		x.computed(shard)
		if err := x.poll(); err != nil {
			return Outcome{}, err
		}
	}
	if len(t.members) == 1 {
		return Outcome{Alone: true}, nil
	}
	return x.finish()
}

// Left returns how many shards of the round this member has yet to compute. It is for use by Work.Compute.
func (t *Team) Left() (n int) {
	for shard, id := range t.round.Holders {
		if id == t.wire.Self() && !t.mine[shard] {
			n++
		}
	}
	return n
}

// take handles a message outside an exchange. The error is errAgain if another round begins or has to.
func (t *Team) take(m Message, w Work) (done *Outcome, err error) {
	if t.lead != nil {
		return nil, t.leadTake(m)
	}
	switch {
	case m.Kind == Piece:
		t.piece(m)
	case m.Kind == Gone && m.From == Lead:
		return nil, fmt.Errorf("%w: %s", ErrLeaderGone, m.Body)
	case m.Kind == Gone:
		if t.memberAt(m.From) >= 0 {
			t.wire.Send(Lead, Message{Kind: Lost, Node: int(m.From), Body: m.Body})
		}
	case m.From != Lead: // from an exchange that is over
	case m.Kind == End:
		return nil, &EndedError{string(m.Body)}
	case m.Kind == Alive:
		t.wire.Send(Lead, m)
	case m.Kind == Rows:
		return nil, w.Take(m.Node, m.Body)
	case m.Kind == Fetch:
		if lasting, ok := w.(Lasting); ok {
			for _, part := range lasting.State(m.Node) {
				t.wire.Send(Lead, Message{Kind: Kept, Node: m.Node, Body: part})
			}
		}
	case m.Kind == Deal:
		return nil, t.takeDeal(m.Body)
	case m.Kind == Round:
		return nil, t.begin(m.Body)
	case m.Kind == Commit && m.Round == t.round.Round:
		done = &Outcome{}
		err := json.Unmarshal(m.Body, done)
		return done, err
	}
	return nil, nil
}

// begin starts the round of an order. It returns errAgain if it succeeds.
func (t *Team) begin(body []byte) error {
	var o order
	if err := json.Unmarshal(body, &o); err != nil {
		return fmt.Errorf("%s: round: %w", t.name(Lead), err)
	}
	if o.Round <= t.round.Round || len(o.Holders) != t.shards {
		return fmt.Errorf("%s: round: found %d of %d shards after %d, want a later one of %d", t.name(Lead), o.Round,
			len(o.Holders), t.round.Round, t.shards)
	}
	t.round, t.members = o, o.Members
	for _, id := range o.Holders {
		if t.memberAt(id) < 0 {
			return fmt.Errorf("%s: round: found a shard of member %d, which is none", t.name(Lead), id)
		}
	}
	t.nodes, t.by = held(o.Holders, t.bits < float32Bits)
	t.wire.Know(o.Members)
	if err := t.settle(o.Keepers); err != nil {
		return err
	}
	return errAgain
}

func (t *Team) memberAt(id ID) int {
	for i, m := range t.members {
		if m.ID == id {
			return i
		}
	}
	return -1
}

func (t *Team) name(id ID) string {
	if i := t.memberAt(id); i >= 0 {
		return t.members[i].Name
	}
	return fmt.Sprintf("member %d", id)
}

// report returns what this member has computed.
func (t *Team) report() report {
	r := report{Results: map[int]shardResult{}}
	for shard := range t.mine {
		r.Results[shard] = shardResult{Float(t.results[shard].Mean), Float(t.results[shard].Weight)}
	}
	if n := len(t.mine); n > 0 {
		r.Seconds = t.seconds / float64(n)
	}
	return r
}

func asJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // not reached: v is of our own types, which have no number that JSON lacks
	}
	return text
}
