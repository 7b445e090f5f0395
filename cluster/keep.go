package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Keeper holds the parts of a state that is split over the members, such as an optimizer's moments. Two members keep
// each part. They compute the weights that belong to it and send them to all others.
type Keeper interface {
	Parts() int
	// Numbers returns the weights of a part or, if kept is true, its kept state: no numbers if all are zero.
	Numbers(part int, kept bool) []float32
	// Set stores values from index at on. It reports whether the part is whole. An empty kept state is whole.
	Set(part int, kept bool, at int, values []float32) (whole bool, err error)
	// Has reports whether this member keeps the whole state of a part. Forget drops that state.
	Has(part int) bool
	Forget(part int)
}

// Keep splits the kept state over the members, two for each part. At first the leader has all parts and the others have
// none.
func (t *Team) Keep(k Keeper) {
	t.kept, t.wanted = k, map[int]bool{}
	if t.lead != nil {
		t.keepers = []ID{Lead}
	}
}

// keeping returns the members that keep one of the given number of parts: two neighbors in a ring, so that the loss of
// two members that are not neighbors loses no part.
func keeping(part, parts int, members []ID) []ID {
	n := len(members)
	if n < 2 {
		return members
	}
	first := part * n / parts
	return []ID{members[first], members[(first+1)%n]}
}

// keepersOf returns the members that keep a part.
func (t *Team) keepersOf(part int) []ID { return keeping(part, t.kept.Parts(), t.keepers) }

// keeps reports whether this member keeps a part.
func (t *Team) keeps(part int) bool { return slices.Contains(t.keepersOf(part), t.wire.Self()) }

// deal is the body of a Deal message. It says who sends which parts to whom, and who the members are.
type deal struct {
	Number  uint64   `json:"number"`
	Kept    bool     `json:"kept"` // send the kept state, not the weights
	Members []Member `json:"members"`
	Sends   []send   `json:"sends"`
}

// send tells member From to send the parts from First to before End to the members To.
type send struct {
	First int  `json:"first"`
	End   int  `json:"end"`
	From  ID   `json:"from"`
	To    []ID `json:"to"`
}

// sends returns who sends which parts. to returns the members that a part goes to. The first of its keepers that is not
// lost sends it.
func (t *Team) sends(to func(part int) []ID) (all []send, err error) {
	for part := range t.kept.Parts() {
		whom := to(part)
		if len(whom) == 0 {
			continue
		}
		by := t.keepersOf(part)
		i := slices.IndexFunc(by, func(id ID) bool { return t.memberAt(id) >= 0 })
		if i < 0 {
			return nil, t.orphans()
		}
		from := by[i]
		if n := len(all) - 1; n >= 0 && all[n].End == part && all[n].From == from && slices.Equal(all[n].To, whom) {
			all[n].End++
			continue
		}
		all = append(all, send{part, part + 1, from, whom})
	}
	return all, nil
}

// LostPartsError reports that parts are lost because all their keepers are lost.
type LostPartsError struct {
	Parts, Of int
	Keepers   []string // names of the lost members
}

// Error returns how many parts are lost, and who kept them.
func (e *LostPartsError) Error() string {
	return fmt.Sprintf("found no copy of %d of %d parts of the moments: %s kept them, and are lost", e.Parts, e.Of,
		strings.Join(e.Keepers, " and "))
}

// orphans returns a *LostPartsError if a part has no keeper left.
func (t *Team) orphans() error {
	if t.kept == nil {
		return nil
	}
	e := &LostPartsError{Of: t.kept.Parts()}
	for part := range e.Of {
		by := t.keepersOf(part)
		if slices.ContainsFunc(by, func(id ID) bool { return t.memberAt(id) >= 0 }) {
			continue
		}
		e.Parts++
		for _, id := range by {
			if name := t.lead.names[id]; !slices.Contains(e.Keepers, name) {
				e.Keepers = append(e.Keepers, name)
			}
		}
	}
	if e.Parts == 0 {
		return nil
	}
	return e
}

// rekeep moves the parts to the current members of the leader's team after members have come or gone. Members forget
// the parts that others keep when a round begins.
func (t *Team) rekeep() error {
	if t.kept == nil {
		return nil
	}
	for {
		var ids []ID
		for _, m := range t.members {
			ids = append(ids, m.ID)
		}
		if slices.Equal(ids, t.keepers) {
			return nil
		}
		again, err := t.dealOut(true, func(part int) []ID {
			return slices.DeleteFunc(slices.Clone(keeping(part, t.kept.Parts(), ids)), func(id ID) bool {
				return slices.Contains(t.keepersOf(part), id)
			})
		})
		if err != nil {
			return err
		}
		if !again {
			t.keepers = ids
			return nil
		}
	}
}

// Share gives all members the weights of all parts, after the keepers of each part have computed them.
func (t *Team) Share() error {
	clear(t.wanted)
	for part := range t.kept.Parts() {
		if !t.keeps(part) {
			t.wanted[part] = true
		}
	}
	for t.lead == nil && len(t.wanted) > 0 {
		m, err := t.wire.Receive(context.Background())
		if err == nil && m.From == Lead && (m.Kind == Rows || m.Kind == Fetch || m.Kind == Round) {
			err = fmt.Errorf("%s: found a message of kind %d before all weights", t.name(Lead), m.Kind)
		}
		if err == nil {
			_, err = t.take(m, nil)
		}
		if err != nil {
			return err
		}
	}
	if t.lead != nil {
		t.lead.last = nil // a member that is lost from here on costs no shard
	}
	for t.lead != nil {
		again, err := t.dealOut(false, func(part int) (to []ID) {
			for _, m := range t.members {
				if !slices.Contains(t.keepersOf(part), m.ID) {
					to = append(to, m.ID)
				}
			}
			return to
		})
		if err != nil || !again {
			return err
		}
	}
	return nil
}

// Lend gives the leader the kept state of a part, which the leader has until it forgets the part.
func (t *Team) Lend(part int) error {
	for !t.kept.Has(part) {
		_, err := t.dealOut(true, func(p int) []ID {
			if p == part {
				return []ID{Lead}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// dealOut makes keepers send parts to the members that to returns, and waits until these have received them. again
// reports that a member was lost meanwhile.
func (t *Team) dealOut(kept bool, to func(part int) []ID) (again bool, err error) {
	sends, err := t.sends(to)
	if err != nil || len(sends) == 0 {
		return false, err
	}
	d := deal{t.dealt.Number + 1, kept, t.members, sends}
	t.wire.Know(t.members)
	t.toAll(Message{Kind: Deal, Round: d.Number, Body: asJSON(d)})
	t.deals(d)
	have := map[ID]bool{Lead: true}
	for len(have) < len(t.members) || len(t.at) > 0 {
		m, err := t.wire.Receive(context.Background())
		switch {
		case err != nil:
			return false, err
		case m.Kind == Piece:
			t.piece(m)
		case m.Kind == Have:
			if m.Round == d.Number && t.memberAt(m.From) > 0 {
				have[m.From] = true
			}
		default:
			switch err := t.leadTake(m); {
			case err == errAgain:
				return true, nil
			case err != nil:
				return false, err
			}
		}
	}
	return false, nil
}

// takeDeal checks a deal of the leader and begins it.
func (t *Team) takeDeal(body []byte) error {
	var d deal
	if err := json.Unmarshal(body, &d); err != nil || t.kept == nil || d.Number <= t.dealt.Number {
		return fmt.Errorf("%s: deal: found %d after %d, %v, want a later one of parts", t.name(Lead), d.Number,
			t.dealt.Number, err)
	}
	for _, s := range d.Sends {
		if s.First < 0 || s.End <= s.First || s.End > t.kept.Parts() {
			return fmt.Errorf("%s: deal: found the parts %d to %d, want some of %d", t.name(Lead), s.First, s.End,
				t.kept.Parts())
		}
	}
	t.members = d.Members
	t.wire.Know(d.Members)
	t.deals(d)
	return nil
}

// deals sends the parts that a deal asks of this member, and prepares to receive those that it gets.
func (t *Team) deals(d deal) {
	t.dealt, t.at = d, map[int]int{}
	for _, s := range d.Sends {
		for part := s.First; part < s.End; part++ {
			if s.From == t.wire.Self() {
				t.sendPart(part, s.To)
			}
			if lacks := d.Kept && !t.kept.Has(part) || !d.Kept && t.wanted[part]; lacks &&
				slices.Contains(s.To, t.wire.Self()) {
				t.at[part] = 0
			}
		}
	}
	if len(t.at) == 0 {
		t.haveAll()
	}
	early := t.pieces
	t.pieces = nil
	for _, m := range early {
		t.piece(m)
	}
}

// sendPart sends a part of the current deal.
func (t *Team) sendPart(part int, to []ID) {
	values := t.kept.Numbers(part, t.dealt.Kept)
	for _, id := range to {
		for at := 0; at == 0 || at < len(values); at += chunk {
			piece := slices.Clone(values[at:min(at+chunk, len(values))]) // the next update changes the values
			t.wire.Send(id, Message{Kind: Piece, Round: t.dealt.Number, Node: part, At: at, Values: piece})
		}
	}
}

// piece stores received numbers of a part.
func (t *Team) piece(m Message) {
	if m.Round > t.dealt.Number { // its deal is on the way
		t.pieces = append(t.pieces, m)
	}
	at, expected := t.at[m.Node]
	if m.Round != t.dealt.Number || !expected {
		return // the deal is not the current one, or the part is already here
	}
	from := slices.IndexFunc(t.dealt.Sends, func(s send) bool {
		return s.From == m.From && s.First <= m.Node && m.Node < s.End
	})
	if from < 0 || m.At != at {
		t.wire.Drop(m.From, fmt.Sprintf("found part %d from %d on, want it from %d on, of who has it", m.Node, m.At,
			at))
		return
	}
	whole, err := t.kept.Set(m.Node, t.dealt.Kept, at, m.Values)
	switch {
	case err != nil:
		t.wire.Drop(m.From, err.Error())
	case whole:
		delete(t.at, m.Node)
		if !t.dealt.Kept {
			delete(t.wanted, m.Node)
		}
		if len(t.at) == 0 {
			t.haveAll()
		}
	default:
		t.at[m.Node] += len(m.Values)
	}
}

// haveAll tells the leader that this member has received all its parts of the deal.
func (t *Team) haveAll() {
	if t.lead == nil {
		t.wire.Send(Lead, Message{Kind: Have, Round: t.dealt.Number})
	}
}

// settle sets the keepers and forgets the parts that only others keep.
func (t *Team) settle(keepers []ID) error {
	if t.kept == nil {
		return nil
	}
	t.keepers = keepers
	for part := range t.kept.Parts() {
		if !t.keeps(part) {
			t.kept.Forget(part)
		} else if !t.kept.Has(part) {
			return fmt.Errorf("%s: round: found no part %d here, which this member keeps", t.name(Lead), part)
		}
	}
	return nil
}
