package cluster

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// exchange is the exchange of a round. A member owns every n-th chunk of the numbers, so that all have something to add
// whichever part is final. A chunk of a node is sent as soon as its numbers are final, beside the computation.
type exchange struct {
	*Team
	round   order // as it is in this exchange: another may begin while the last parts are sent
	nodes   []Node
	by      []ID
	work    Work
	sum     []float32
	chunks  int
	missing int                 // chunks without a sum here
	have    []bool              // of each chunk
	parts   map[int][][]float32 // of own chunks, by node
	left    map[int]int         // parts missing
	open    map[int][]int       // of own nodes, by place: numbers of each chunk that are not final
	jobs    chan job            // has room for all
	stop    func()              // ends sending
	waiting []Message           // that came before the order of the round
	said    bool                // that all sums are here
	failed  error               // while a shard was computed
	spent   time.Duration       // on messages, while a shard was computed
}

// job is a part to send.
type job struct{ node, chunk int }

// newExchange begins the exchange of the round.
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

// computed says that a shard is computed, and completes a node if it is the last of it.
func (x *exchange) computed(shard int) {
	if i := x.ends(shard); i >= 0 {
		x.final(i, 0, len(x.sum))
	}
}

// ends is the place of the own node that a shard is the last of, -1 for none.
func (x *exchange) ends(shard int) int {
	for i := range x.open {
		if n := x.nodes[i]; shard == min(n.Width*(n.At+1), len(x.round.Holders))-1 {
			return i
		}
	}
	return -1
}

// during is what Compute calls while it computes a shard; nil if the shard does not complete a node.
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

// final says that numbers of an own node are final. All are final when it is said of all at once.
func (x *exchange) final(node, lo, hi int) {
	open, whole := x.open[node], lo == 0 && hi == len(x.sum)
	first, end := lo/chunk, (hi+chunk-1)/chunk
	for k := range end - first { // each member begins with another's chunk
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

// poll takes the messages that are there.
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

// finish exchanges what is left, until the sum counts.
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

// receive is take, and knows when a sum may count.
func (x *exchange) receive(m Message) (*Outcome, error) {
	outcome, err := x.take(m)
	if outcome != nil && !x.said {
		err = fmt.Errorf("%s: commit: found it before the sum", x.name(Lead))
	}
	return outcome, err
}

// next is a message that is there: those first that came before the order of the round.
func (x *exchange) next() (m Message, ok bool) {
	if n := len(x.waiting); n > 0 {
		m, x.waiting = x.waiting[0], x.waiting[1:]
		return m, true
	}
	return x.wire.Poll()
}

// owner is the member who adds a chunk.
func (x *exchange) owner(c int) ID { return x.round.Members[c%len(x.round.Members)].ID }

// span are the places of a chunk.
func (x *exchange) span(c int) (lo, hi int) { return c * chunk, min((c+1)*chunk, len(x.sum)) }

// put adds an own chunk when all parts are there, and sends the sum to all.
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

// got keeps the sum of a chunk.
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
	case m.Round > x.round.Round: // its order is on the way
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

// strange disconnects a member that breaks the rules. Gone follows: the leader drops it, others accuse it.
func (x *exchange) strange(m Message) {
	why := fmt.Sprintf("found %d values at %d of node %d, of %d values and %d nodes", len(m.Values), m.At, m.Node,
		len(x.sum), len(x.nodes))
	x.wire.Drop(m.From, why)
}
