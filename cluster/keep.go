package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Keeper has what members keep two each, in parts: the moments of an optimizer. Who keeps a part computes the weights
// that go with it, and sends them to all others.
type Keeper interface {
	Parts() int
	// Numbers are the weights of a part or, if kept is true, what is kept of it: none if all of that is zero.
	Numbers(part int, kept bool) []float32
	// Set puts numbers in their place, from at on. It reports whether the part is whole, as it is where there are none.
	Set(part int, kept bool, at int, values []float32) (whole bool, err error)
	// Has reports whether this member keeps a part as a whole, Forget ends that.
	Has(part int) bool
	Forget(part int)
}

// Keep lets this member and others keep parts two each. A leader has all of them, others none.
func (t *Team) Keep(k Keeper) {
	t.kept, t.wanted = k, map[int]bool{}
	if t.lead != nil {
		t.keepers = []ID{Lead}
	}
}

// keeping are the members of n that keep a part of so many: two neighbors in a ring, so that the loss of two members
// that are none loses nothing.
func keeping(part, parts int, members []ID) []ID {
	n := len(members)
	if n < 2 {
		return members
	}
	first := part * n / parts
	return []ID{members[first], members[(first+1)%n]}
}

// keepersOf are the members that keep a part.
func (t *Team) keepersOf(part int) []ID { return keeping(part, t.kept.Parts(), t.keepers) }

// keeps reports whether this member keeps a part.
func (t *Team) keeps(part int) bool { return slices.Contains(t.keepersOf(part), t.wire.Self()) }

// deal is the body of Deal: who sends which parts to whom, by the members of the time.
type deal struct {
	Number  uint64   `json:"number"`
	Kept    bool     `json:"kept"` // what is kept; else weights
	Members []Member `json:"members"`
	Sends   []send   `json:"sends"`
}

// send says that a member sends the parts from First to before End.
type send struct {
	First int  `json:"first"`
	End   int  `json:"end"`
	From  ID   `json:"from"`
	To    []ID `json:"to"`
}

// sends are the parts that have someone to go to, from the first member that keeps each.
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

// LostPartsError says that parts are lost, as all their keepers are.
type LostPartsError struct {
	Parts, Of int
	Keepers   []string // that were lost
}

// Error says how many, and whose.
func (e *LostPartsError) Error() string {
	return fmt.Sprintf("found no copy of %d of %d parts of the moments: %s kept them, and are lost", e.Parts, e.Of,
		strings.Join(e.Keepers, " and "))
}

// orphans returns a *LostPartsError if no member is left that keeps a part.
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

// rekeep lets the members of the leader's team keep the parts, whoever has come or gone. They forget what others keep
// when a round begins.
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

// Share lets all members have the weights of all parts, which those who keep them have just computed.
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
		t.lead.last = nil // who is lost from here on costs no shard
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

// Lend lets the leader have what is kept of a part until it forgets it.
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

// dealOut lets parts be sent by those who keep them to others, and waits until these have them. again says that a
// member was lost meanwhile.
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

// takeDeal begins what the leader deals out.
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

// deals sends the parts that this member sends in a deal, and expects those that it gets.
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

// sendPart sends a part of the deal.
func (t *Team) sendPart(part int, to []ID) {
	values := t.kept.Numbers(part, t.dealt.Kept)
	for _, id := range to {
		for at := 0; at == 0 || at < len(values); at += chunk {
			piece := slices.Clone(values[at:min(at+chunk, len(values))]) // as the next update changes them
			t.wire.Send(id, Message{Kind: Piece, Round: t.dealt.Number, Node: part, At: at, Values: piece})
		}
	}
}

// piece takes numbers of a part.
func (t *Team) piece(m Message) {
	if m.Round > t.dealt.Number { // its deal is on the way
		t.pieces = append(t.pieces, m)
	}
	at, expected := t.at[m.Node]
	if m.Round != t.dealt.Number || !expected {
		return // of a deal that is over, or a part that is here
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

// haveAll tells the leader that this member has all parts of the deal.
func (t *Team) haveAll() {
	if t.lead == nil {
		t.wire.Send(Lead, Message{Kind: Have, Round: t.dealt.Number})
	}
}

// settle forgets the parts that others keep.
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
