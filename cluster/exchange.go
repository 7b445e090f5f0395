package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
)

// exchange is the exchange of a round: each member owns a range of the numbers, of whole chunks.
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
}

// exchange gives every member the sum of all nodes.
func (t *Team) exchange(w Work, sum []float32) (Outcome, error) {
	chunks := (len(sum) + chunk - 1) / chunk
	x := &exchange{Team: t, round: t.round, nodes: t.nodes, by: t.by, work: w, sum: sum, chunks: chunks,
		missing: chunks, have: make([]bool, chunks), parts: map[int][][]float32{}, left: map[int]int{}}
	ctx, stop := context.WithCancel(context.Background())
	var sending sync.WaitGroup
	sending.Go(func() { x.sendParts(ctx) })
	defer sending.Wait()
	defer stop()
	for c := range chunks {
		if x.owner(c) == t.wire.Self() {
			x.open(c)
		}
	}
	early := t.early
	t.early = nil
	said := false
	for {
		if x.missing == 0 && !said {
			said = true
			if t.lead == nil {
				t.wire.Send(Lead, Message{Kind: Done, Round: t.round.Round, Body: asJSON(t.report())})
			}
		}
		if t.lead != nil && x.missing == 0 && t.lead.allDone(t) {
			return Outcome{}, nil
		}
		var m Message
		if len(early) > 0 {
			m, early = early[0], early[1:]
		} else {
			var err error
			if m, err = t.wire.Receive(context.Background()); err != nil {
				return Outcome{}, err
			}
		}
		outcome, err := x.take(m)
		if errors.Is(err, errAgain) {
			t.early = append(early, t.early...)
		}
		if err != nil {
			return Outcome{}, err
		}
		if outcome != nil {
			if x.missing > 0 {
				return Outcome{}, fmt.Errorf("%s: commit: found it before the sum", t.name(Lead))
			}
			return *outcome, nil
		}
	}
}

// owner is the member whose range has a chunk.
func (x *exchange) owner(c int) ID { return x.round.Members[c*len(x.round.Members)/x.chunks].ID }

// span are the places of a chunk.
func (x *exchange) span(c int) (lo, hi int) { return c * chunk, min((c+1)*chunk, len(x.sum)) }

// open prepares to add an own chunk, with what this member has of it.
func (x *exchange) open(c int) {
	lo, hi := x.span(c)
	all := make([][]float32, len(x.nodes))
	x.left[c] = len(all)
	x.parts[c] = all
	for i, id := range x.by {
		if id == x.wire.Self() {
			v := make([]float32, hi-lo)
			x.work.Values(x.nodes[i], lo, v)
			x.put(c, i, v)
		}
	}
}

// put adds an own chunk when all parts are there, and sends the sum to all.
func (x *exchange) put(c, node int, v []float32) {
	all := x.parts[c]
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

// sendParts sends the own nodes to the owners of the chunks, to the next member first.
func (x *exchange) sendParts(ctx context.Context) {
	first := 0
	for c := range x.chunks {
		if x.owner(c) == x.wire.Self() {
			first = c
		}
	}
	for k := range x.chunks {
		c := (first + 1 + k) % x.chunks
		to := x.owner(c)
		if to == x.wire.Self() {
			continue
		}
		lo, hi := x.span(c)
		for i, id := range x.by {
			if id != x.wire.Self() {
				continue
			}
			if x.wire.Ready(ctx, to) != nil {
				return
			}
			v := make([]float32, hi-lo)
			x.work.Values(x.nodes[i], lo, v)
			m := Message{Kind: Part, Round: x.round.Round, Node: i, At: lo, Values: v}
			if x.bits < float32Bits {
				m.Values, m.Body = nil, pack(v, x.bits)
			}
			x.wire.Send(to, m)
		}
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
