package cluster

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// exchange is the exchange of one round. Each of n members owns every n-th chunk of the numbers, so that all members
// have something to add whichever numbers become final first. A chunk of a node is sent as soon as its numbers are
// final, while the computation goes on.
type exchange struct {
	*Team
	round   order // of this exchange: Team may begin another while the last parts are sent
	nodes   []Node
	by      []ID
	work    Work
	sum     []float32
	chunks  int
	missing int                 // chunks whose sum has not arrived
	have    []bool              // whether the sum of each chunk has arrived
	parts   map[int][][]float32 // of own chunks: by chunk, then by node
	left    map[int]int         // missing parts of each own chunk
	open    map[int][]int       // by index of an own node: how many numbers of each chunk are not final
	jobs    chan job            // buffered for all parts
	stop    func()              // stops the goroutine that sends
	waiting []Message           // messages that came before the order of the round
	said    bool                // whether the leader was told that all sums are here
	failed  error               // the error of an exchange while a shard was computed
	spent   time.Duration       // time spent on messages while a shard was computed
}

// job is a part to send.
type job struct{ node, chunk int }

// newExchange begins the exchange of the current round.
func (t *Team) newExchange(w Work, sum []float32) *exchange {
	chunks := (len(sum) + chunk - 1) / chunk
	x := &exchange{Team: t, round: t.round, nodes: t.nodes, by: t.by, work: w, sum: sum, chunks: chunks,
		missing: chunks, have: make([]bool, chunks), parts: map[int][][]float32{}, left: map[int]int{},
		open: map[int][]int{}, waiting: t.early}
	t.early = nil
	for i, id := range t.by {
		if id == t.wire.Self() && len(t.members) > 1 {
			x.open[i] = make([]int, chunks)
			for c := range chunks {
				lo, hi := x.span(c)
				x.open[i][c] = hi - lo
			}
		}
	}
	x.jobs = make(chan job, len(x.open)*chunks)
	ctx, cancel := context.WithCancel(context.Background())
	var sending sync.WaitGroup
	sending.Go(func() { x.send(ctx) })
	x.stop = func() {
		cancel()
		sending.Wait()
		t.early = append(x.waiting, t.early...)
	}
	return x
}

// computed records that a shard is computed. If the shard is the last of a node, it completes the node.
func (x *exchange) computed(shard int) {
	if i := x.ends(shard); i >= 0 {
		x.final(i, 0, len(x.sum))
	}
}

// ends returns the index of this member's node whose last shard is the given one, or -1.
func (x *exchange) ends(shard int) int {
	for i := range x.open {
		if n := x.nodes[i]; shard == min(n.Width*(n.At+1), len(x.round.Holders))-1 {
			return i
		}
	}
	return -1
}

// during returns the function that Compute calls while it computes a shard, or nil if the shard does not complete a
// node.
func (x *exchange) during(shard int) func(lo, hi int) {
	i := x.ends(shard)
	if i < 0 {
		return nil
	}
	return func(lo, hi int) {
		if x.failed != nil {
			return
		}
		began := x.now()
		x.final(i, lo, hi)
		x.failed = x.poll()
		x.spent += x.now().Sub(began)
	}
}

// final marks the numbers from lo to before hi of an own node as final. A call for all numbers at once makes all of
// them final, whatever was marked before.
func (x *exchange) final(node, lo, hi int) {
	open, whole := x.open[node], lo == 0 && hi == len(x.sum)
	first, end := lo/chunk, (hi+chunk-1)/chunk
	for k := range end - first { // members begin at different chunks
		c := first + (k+1+x.memberAt(x.wire.Self()))%(end-first)
		from, to := x.span(c)
		if open[c] == 0 {
			continue
		}
		open[c] -= min(hi, to) - max(lo, from)
		if whole {
			open[c] = 0
		}
		if open[c] > 0 {
			continue
		}
		if x.owner(c) != x.wire.Self() {
			x.jobs <- job{node, c}
			continue
		}
		v := make([]float32, to-from)
		x.work.Values(x.nodes[node], from, v)
		x.put(c, node, v)
	}
}

// poll handles the messages that have already arrived.
func (x *exchange) poll() error {
	for {
		m, ok := x.next()
		if !ok {
			return nil
		}
		if _, err := x.receive(m); err != nil {
			return err
		}
	}
}

// finish exchanges the rest, until the sum counts.
func (x *exchange) finish() (Outcome, error) {
	for {
		if x.missing == 0 && !x.said {
			if w, may := x.work.(Failing); may {
				if err := w.Failed(); err != nil {
					return Outcome{}, err
				}
			}
			x.said = true
			if x.lead == nil {
				x.wire.Send(Lead, Message{Kind: Done, Round: x.round.Round, Body: asJSON(x.report())})
			}
		}
		if x.lead != nil && x.missing == 0 && x.lead.allDone(x.Team) {
			return Outcome{}, nil
		}
		m, ok := x.next()
		if !ok {
			var err error
			if m, err = x.wire.Receive(context.Background()); err != nil {
				return Outcome{}, err
			}
		}
		if outcome, err := x.receive(m); err != nil || outcome != nil {
			return *cmp.Or(outcome, &Outcome{}), err
		}
	}
}

// receive handles a message as take does. A commit before all sums are here is an error.
func (x *exchange) receive(m Message) (*Outcome, error) {
	outcome, err := x.take(m)
	if outcome != nil && !x.said {
		err = fmt.Errorf("%s: commit: found it before the sum", x.name(Lead))
	}
	return outcome, err
}

// next returns a message that has already arrived, if any. Those that came before the order of the round come first.
func (x *exchange) next() (m Message, ok bool) {
	if n := len(x.waiting); n > 0 {
		m, x.waiting = x.waiting[0], x.waiting[1:]
		return m, true
	}
	return x.wire.Poll()
}

// owner returns the member that adds a chunk.
func (x *exchange) owner(c int) ID { return x.round.Members[c%len(x.round.Members)].ID }

// span returns the range of numbers in a chunk, from lo to before hi.
func (x *exchange) span(c int) (lo, hi int) { return c * chunk, min((c+1)*chunk, len(x.sum)) }

// put stores a node's part of an own chunk. When all parts are here, it adds them and sends the sum to all members.
func (x *exchange) put(c, node int, v []float32) {
	all := x.parts[c]
	if all == nil {
		all = make([][]float32, len(x.nodes))
		x.parts[c], x.left[c] = all, len(all)
	}
	if all[node] != nil {
		return
	}
	all[node] = v
	if x.left[c]--; x.left[c] > 0 {
		return
	}
	total := addNodes(len(x.round.Holders), x.nodes, all)
	delete(x.parts, c)
	x.got(c, total)
	for _, m := range x.round.Members {
		if m.ID != x.wire.Self() {
			x.wire.Send(m.ID, Message{Kind: Sum, Round: x.round.Round, At: c * chunk, Values: total})
		}
	}
}

// got stores the sum of a chunk.
func (x *exchange) got(c int, v []float32) {
	if !x.have[c] {
		x.have[c] = true
		x.missing--
		copy(x.sum[c*chunk:], v)
	}
}

// send sends parts to the owners of their chunks, until ctx is done.
func (x *exchange) send(ctx context.Context) {
	for {
		var j job
		select {
		case j = <-x.jobs:
		case <-ctx.Done():
			return
		}
		to := x.owner(j.chunk)
		if x.wire.Ready(ctx, to) != nil {
			return
		}
		lo, hi := x.span(j.chunk)
		v := make([]float32, hi-lo)
		x.work.Values(x.nodes[j.node], lo, v)
		m := Message{Kind: Part, Round: x.round.Round, Node: j.node, At: lo, Values: v}
		if x.bits < float32Bits {
			m.Values, m.Body = nil, pack(v, x.bits)
		}
		x.wire.Send(to, m)
	}
}

// take handles a message during the exchange.
func (x *exchange) take(m Message) (*Outcome, error) {
	if m.Kind != Part && m.Kind != Sum && m.Kind != Done {
		return x.Team.take(m, x.work)
	}
	switch {
	case m.Round < x.round.Round: // of a round that was given up
		return nil, nil
	case m.Round > x.round.Round: // the order of that round is on its way
		if m.Round != math.MaxUint64 {
			x.early = append(x.early, m)
		}
		return nil, nil
	case m.Kind == Done:
		if x.lead == nil {
			return nil, nil
		}
		return nil, x.lead.noteDone(x.Team, m)
	}
	c := m.At / chunk
	if m.At < 0 || m.At%chunk != 0 || c >= x.chunks || x.memberAt(m.From) < 0 {
		x.strange(m)
		return nil, nil
	}
	lo, hi := x.span(c)
	if m.Kind == Part && x.bits < float32Bits {
		m.Values = unpack(m.Body, hi-lo, x.bits)
	}
	switch own := x.owner(c) == x.wire.Self(); {
	case len(m.Values) != hi-lo:
		x.strange(m)
	case m.Kind == Sum && x.owner(c) == m.From:
		x.got(c, m.Values)
	case m.Kind == Part && own && m.Node >= 0 && m.Node < len(x.nodes) && x.by[m.Node] == m.From:
		if !x.have[c] {
			x.put(c, m.Node, m.Values)
		}
	default:
		x.strange(m)
	}
	return nil, nil
}

// strange disconnects a member that breaks the protocol. A Gone message follows: on it the leader drops the member, and
// other members report the member to the leader.
func (x *exchange) strange(m Message) {
	why := fmt.Sprintf("found %d values at %d of node %d, of %d values and %d nodes", len(m.Values), m.At, m.Node,
		len(x.sum), len(x.nodes))
	x.wire.Drop(m.From, why)
}
