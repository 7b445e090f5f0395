package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// partSize is chosen so that a part is several messages long and parts differ in size.
const partSize = 100

func (w *toy) Parts() int { return (len(w.weights) + partSize - 1) / partSize }

func (w *toy) span(part int) []float32 {
	return w.weights[part*partSize : min((part+1)*partSize, len(w.weights))]
}

func (w *toy) Numbers(part int, kept bool) []float32 {
	if kept {
		return w.kept[part]
	}
	return w.span(part)
}

func (w *toy) Set(part int, kept bool, at int, values []float32) (whole bool, err error) {
	n := len(w.span(part))
	if at+len(values) > n {
		return false, fmt.Errorf("found %d values at %d of %d", len(values), at, n)
	}
	if !kept {
		copy(w.span(part)[at:], values)
		return at+len(values) == n, nil
	}
	w.coming[part] = append(w.coming[part][:at:at], values...)
	if whole = len(w.coming[part]) == n || len(values) == 0; whole {
		w.kept[part] = w.coming[part]
	}
	return whole, nil
}

func (w *toy) Has(part int) bool { _, has := w.kept[part]; return has }

func (w *toy) Forget(part int) { delete(w.kept, part) }

// update moves weights by their velocity: it updates the parts that are kept here and shares the weights of all parts.
func (w *toy) update(t *Team, sum []float32, scale float32) error {
	if !w.split {
		for i := range w.weights {
			w.weights[i] -= scale * sum[i]
		}
		return nil
	}
	w.most = max(w.most, len(w.kept))
	for part, v := range w.kept {
		span := w.span(part)
		if len(v) == 0 {
			v = make([]float32, len(span))
			w.kept[part] = v
		}
		for i := range span {
			v[i] = v[i]/2 + sum[part*partSize+i]
			span[i] -= scale * v[i]
		}
	}
	return t.Share()
}

// TestKeeping checks that each part has two keepers, that each member keeps two of n parts, and that the loss of two
// members that are not neighbors loses no part.
func TestKeeping(t *testing.T) {
	const parts = 240
	for n := 1; n <= 9; n++ {
		var members []ID
		for i := range n {
			members = append(members, ID(3*i))
		}
		load := map[ID]int{}
		for part := range parts {
			by := keeping(part, parts, members)
			if len(by) != min(2, n) || n > 1 && by[0] == by[1] {
				t.Fatalf("%d members: part %d is kept by %v", n, part, by)
			}
			for _, id := range by {
				load[id]++
			}
			if n > 3 && slices.Contains(by, members[0]) && slices.Contains(by, members[2]) {
				t.Errorf("%d members: part %d is lost with the first and the third", n, part)
			}
		}
		for id, k := range load {
			if want := parts * min(2, n) / n; k < want-2 || k > want+2 {
				t.Errorf("%d members: %d keeps %d parts, want about %d", n, id, k, want)
			}
		}
	}
}

// TestPiecesOfOthers checks that a member is dropped if it sends a part that another member has to send, numbers that
// are not the next ones, or too many numbers. Numbers of a finished deal, or of a part that is not expected, are
// ignored.
func TestPiecesOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		piece Message
		lost  string // why the sender is lost
		holds bool
	}{
		"good":     {Message{From: 2, Node: 1, Values: make([]float32, partSize)}, "", true},
		"zeros":    {Message{From: 2, Node: 1}, "", true},
		"later":    {Message{From: 2, Round: 5, Node: 1, Values: make([]float32, partSize)}, "", false},
		"over":     {Message{From: 2, Round: 3, Node: 1, Values: make([]float32, partSize)}, "", false},
		"unasked":  {Message{From: 2, Node: 0, Values: make([]float32, partSize)}, "", false},
		"no part":  {Message{From: 2, Node: -7, Values: make([]float32, partSize)}, "", false},
		"stranger": {Message{From: 1, Node: 1, Values: make([]float32, partSize)}, "found part 1 from 0 on", false},
		"middle": {Message{From: 2, Node: 1, At: 9, Values: make([]float32, 9)},
			"found part 1 from 9 on, want it from 0", false},
		"too many": {Message{From: 2, Node: 1, Values: make([]float32, partSize+1)}, "found 101 values", false},
	} {
		n := NewLocal()
		var wires []Wire
		for range 4 {
			wires = append(wires, n.Wire(Greeting{}))
		}
		member := &Team{wire: wires[3]}
		w := newToy(3*partSize, 2)
		member.Keep(w)
		d := deal{Number: 4, Kept: true, Members: []Member{{ID: 0}, {ID: 1}, {ID: 2}, {ID: 3}},
			Sends: []send{{0, 1, 1, []ID{2}}, {1, 2, 2, []ID{3}}}}
		if err := member.takeDeal(asJSON(d)); err != nil {
			t.Fatal(err)
		}
		if c.piece.Round == 0 {
			c.piece.Round = 4
		}
		member.piece(c.piece)
		if w.Has(1) != c.holds {
			t.Errorf("%s: the part is there: %t, want %t", name, w.Has(1), c.holds)
		}
		wires[3].Send(Lead, Message{Kind: Alive}) // comes last
		why := ""
		for m := (Message{}); m.Kind != Alive; {
			var err error
			if m, err = wires[0].Receive(t.Context()); err != nil {
				t.Fatal(err)
			}
			if m.Kind == Gone {
				why = string(m.Body)
			}
			if m.Kind == Have && (!c.holds || m.Round != 4) {
				t.Errorf("%s: the member says that it has all", name)
			}
		}
		if !strings.Contains(why, c.lost) || (why == "") != (c.lost == "") {
			t.Errorf("%s: the sender is lost as %q, want %q", name, why, c.lost)
		}
		for _, bad := range []deal{{Number: 4}, {Number: 9, Sends: []send{{First: 2, End: 4}}},
			{Number: 9, Sends: []send{{First: 1, End: 1}}}} {
			if member.takeDeal(asJSON(bad)) == nil {
				t.Errorf("the deal %v is taken", bad)
			}
		}
		n.Close()
	}
}
