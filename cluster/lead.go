package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// leastPatience is how long a member may be silent, unless five steps take longer.
const leastPatience = 20 * time.Second

// Host holds the functions that a leader needs besides its share of the work.
type Host struct {
	// Check returns why a member may not join, as one line, or nil if it may.
	Check func(Greeting) error
	// Welcome returns what a member needs to know before its first step, and the state that it starts from.
	Welcome func() (body []byte, state []float32)
	// Note is called with a line of text when members have come or gone.
	Note func(text string)
}

// leading is the state of the leader.
type leading struct {
	Host
	waiting []Message // greetings of those not admitted yet
	speed   map[ID]float64
	last    []ID // holders of shards in the last round of the step
	before  []ID // holders of shards in the previous step, who have their states
	stay    bool // shards go to their holders of the previous step
	done    map[ID]bool
	lost    []loss // in this step
	names   map[ID]string
}

// loss describes a member that was lost in a step.
type loss struct {
	name, why string
	shards    int
	at        time.Time
}

// NewLeader returns the team of a leader, which has no other members at first.
func NewLeader(w Wire, name string, h Host, now func() time.Time) *Team {
	l := &leading{Host: h, speed: map[ID]float64{}, names: map[ID]string{Lead: name}}
	return &Team{wire: w, now: now, members: []Member{{ID: Lead, Name: name}}, lead: l}
}

// Gather waits until n members have greeted the leader, and returns their greetings. They join in the next step.
func (t *Team) Gather(ctx context.Context, n int) ([]Greeting, error) {
	for len(t.lead.waiting) < n {
		m, err := t.wire.Receive(ctx)
		if err != nil {
			return nil, fmt.Errorf("found %d of %d members: %w", len(t.lead.waiting)+1, n+1, err)
		}
		if err := t.leadTake(m); err != nil {
			return nil, err
		}
	}
	var all []Greeting
	for _, m := range t.lead.waiting {
		var g Greeting
		if err := json.Unmarshal(m.Body, &g); err != nil {
			return nil, fmt.Errorf("member %d: greeting: %w", m.From, err)
		}
		all = append(all, g)
	}
	return all, nil
}

// Size returns the number of members in a leader's team, including those that wait to be admitted.
func (t *Team) Size() int {
	return len(t.members) + len(t.lead.waiting)
}

// Lead sets the Welcome and Note functions of a leader that does not know them when it calls NewLeader.
func (t *Team) Lead(welcome func() (body []byte, state []float32), note func(text string)) {
	t.lead.Welcome, t.lead.Note = welcome, note
}

// leadStep is Step for the leader.
func (t *Team) leadStep(step, shards int, factor float64, w Work, sum []float32) (Outcome, error) {
	l := t.lead
	began := t.now()
	l.last = nil // a member that is lost between steps costs nothing
	for m, ok := t.wire.Poll(); ok; m, ok = t.wire.Poll() {
		if err := t.leadTake(m); err != nil && !errors.Is(err, errAgain) {
			return Outcome{}, err
		}
	}
	t.tellLosses(step)
	known := len(t.members)
	last, lasting := w.(Lasting)
	if lasting && len(l.waiting) > 0 && l.stays(last) { // shards may go to others, with their states
		if err := t.Fetch(last); err != nil {
			return Outcome{}, err
		}
	}
	t.admit(step, shards)
	l.stay = lasting && len(l.before) == shards && len(t.members) == known
	if err := t.rekeep(); err != nil {
		return Outcome{}, err
	}
	for {
		if err := cmp.Or(t.orphans(), t.settle(t.keepers), t.stranded(last)); err != nil {
			return Outcome{}, err
		}
		t.deal(step, shards, w)
		outcome, err := t.attempt(w, sum)
		if errors.Is(err, errAgain) {
			continue
		}
		if err != nil {
			return outcome, err
		}
		if n := len(t.mine); n > 0 {
			l.hears(Lead, t.seconds/float64(n))
		}
		all := make([]Result, shards)
		for i := range all {
			all[i] = t.results[i]
		}
		for shard, r := range all {
			if math.IsNaN(r.Mean) || math.IsInf(r.Mean, 0) {
				return outcome, &LossError{r.Mean, t.name(t.round.Holders[shard])}
			}
		}
		loss, count := Total(all)
		outcome.Loss, outcome.Count, outcome.Factor = Float(loss), Float(count), Float(factor)
		t.toAll(Message{Kind: Commit, Round: t.round.Round, Body: asJSON(outcome)})
		l.before = t.round.Holders
		t.wire.Patience(max(leastPatience, 5*t.now().Sub(began)))
		t.tellLosses(step)
		return outcome, nil
	}
}

// stays reports whether some shard can be computed only by the member that computed it before.
func (l *leading) stays(w Lasting) bool {
	for shard := range l.before {
		if w.Again(shard) != nil {
			return true
		}
	}
	return false
}

// stranded returns an error if a shard cannot be computed any more because its member is lost.
func (t *Team) stranded(w Lasting) error {
	for shard, id := range t.lead.before {
		if w == nil || t.memberAt(id) >= 0 {
			continue
		}
		if err := w.Again(shard); err != nil {
			return fmt.Errorf("%s is lost: %w", t.lead.names[id], err)
		}
	}
	return nil
}

// LossError reports that the loss of a shard is not finite.
type LossError struct {
	Loss   float64
	Member string // name of the member that computed it
}

// Error returns a message with the loss and the member.
func (e *LossError) Error() string {
	return fmt.Sprintf("the loss of a shard of %s is %v", e.Member, e.Loss)
}

// Total returns the mean loss over the targets of all shards, and the number of targets, at least 1.
func Total(shards []Result) (loss, count float64) {
	for _, r := range shards {
		loss, count = loss+float64(r.Weight*r.Mean), count+r.Weight
	}
	count = max(1, count) // there may be no targets
	return loss / count, count
}

// hears updates a member's speed with the seconds that it took for a shard.
func (l *leading) hears(id ID, seconds float64) {
	if seconds <= 0 {
		return
	}
	if was := l.speed[id]; was > 0 {
		seconds = (1/was + seconds) / 2
	}
	l.speed[id] = 1 / seconds
}

// noteDone records that a member has the sums of the round, and stores its results.
func (l *leading) noteDone(t *Team, m Message) error {
	var r report
	if err := json.Unmarshal(m.Body, &r); err != nil {
		t.wire.Drop(m.From, fmt.Sprintf("results: %v", err))
		return nil
	}
	for shard, v := range r.Results {
		if shard >= 0 && shard < len(t.round.Holders) && t.round.Holders[shard] == m.From {
			t.results[shard] = Result{float64(v.Mean), float64(v.Weight)}
		}
	}
	l.done[m.From] = true
	l.hears(m.From, r.Seconds)
	return nil
}

// allDone reports whether all members have the sums of the round.
func (l *leading) allDone(t *Team) bool {
	for _, m := range t.members[1:] {
		if !l.done[m.ID] {
			return false
		}
	}
	return true
}

// deal assigns every shard without a holder to a member, and sends the order of the round to all.
func (t *Team) deal(step, shards int, w Work) {
	l := t.lead
	holders := slices.Clone(l.last)
	if holders == nil {
		holders = make([]ID, shards)
		for i := range holders {
			holders[i] = -1
		}
	}
	give := func(shard int, id ID) {
		holders[shard] = id
		if id == Lead {
			return
		}
		for _, rows := range w.Rows(shard, l.before == nil || l.before[shard] != id) {
			t.wire.Send(id, Message{Kind: Rows, Node: shard, Body: rows})
		}
	}
	var free []int
	for shard, id := range holders {
		switch {
		case t.memberAt(id) >= 0:
		case l.stay && t.memberAt(l.before[shard]) >= 0:
			give(shard, l.before[shard])
		default:
			free = append(free, shard)
		}
	}
	if n := min(len(t.members), len(free)); n > 0 {
		at := 0
		for i, run := range share(len(free), t.speeds()[:n]) {
			for _, shard := range free[at : at+run] {
				give(shard, t.members[i].ID)
			}
			at += run
		}
	}
	l.last, l.done = holders, map[ID]bool{}
	t.round = order{Round: t.round.Round + 1, Step: step, Holders: holders, Members: t.members,
		Keepers: t.keepers}
	t.nodes, t.by = held(holders, t.bits < float32Bits)
	t.wire.Know(t.members)
	t.toAll(Message{Kind: Round, Round: t.round.Round, Body: asJSON(t.round)})
}

// speeds returns the speeds of the members, in shards per second. A member that has computed nothing gets the mean of
// the others.
func (t *Team) speeds() []float64 {
	total, n := 0., 0
	for _, m := range t.members {
		if v := t.lead.speed[m.ID]; v > 0 {
			total, n = total+v, n+1
		}
	}
	all := make([]float64, len(t.members))
	for i, m := range t.members {
		if all[i] = t.lead.speed[m.ID]; all[i] == 0 {
			all[i] = total / float64(max(1, n))
		}
		if all[i] == 0 {
			all[i] = 1
		}
	}
	return all
}

func (t *Team) toAll(m Message) {
	for _, to := range t.members[1:] {
		t.wire.Send(to.ID, m)
	}
}

// leadTake handles a message to the leader outside an exchange. The error is errAgain if a member is lost.
func (t *Team) leadTake(m Message) error {
	l := t.lead
	switch m.Kind {
	case Hello:
		l.waiting = append(l.waiting, m)
	case Lost:
		id := ID(m.Node)
		if id == Lead || t.memberAt(id) < 0 || t.memberAt(m.From) < 0 {
			return nil
		}
		if l.speed[id] > 0 && l.speed[m.From] == 0 { // a new member cannot reach one that others reach, or reached
			t.wire.Send(id, Message{Kind: Alive, Node: int(m.From), Body: m.Body})
			return nil
		}
		t.wire.Drop(id, fmt.Sprintf("%s cannot reach it: %s", t.name(m.From), m.Body))
	case Alive:
		id := ID(m.Node)
		if id == Lead || t.memberAt(id) < 0 || t.memberAt(m.From) < 0 {
			return nil
		}
		t.wire.Send(id, Message{Kind: End, Body: fmt.Appendf(nil, "%s cannot reach %s: %s", t.name(id),
			t.name(m.From), m.Body)})
		t.wire.Drop(id, fmt.Sprintf("it cannot reach %s: %s", t.name(m.From), m.Body))
	case Gone:
		l.waiting = slices.DeleteFunc(l.waiting, func(w Message) bool { return w.From == m.From })
		i := t.memberAt(m.From)
		if i < 1 {
			return nil
		}
		gone := loss{name: t.members[i].Name, why: string(m.Body), at: t.now()}
		for _, id := range l.last {
			if id == m.From {
				gone.shards++
			}
		}
		l.lost = append(l.lost, gone)
		t.members = slices.Delete(slices.Clone(t.members), i, i+1)
		delete(l.speed, m.From)
		return errAgain
	}
	return nil
}

// tellLosses notes which members were lost, after others have computed their shards.
func (t *Team) tellLosses(step int) {
	l := t.lead
	for _, g := range l.lost {
		text := fmt.Sprintf("- %s gone at step %d (%s)", g.name, step+1, g.why)
		if g.shards > 0 {
			text += fmt.Sprintf(": %d shards computed again, %.1f s lost", g.shards, t.now().Sub(g.at).Seconds())
		}
		l.Note(text)
	}
	l.lost = nil
}

// admit admits the waiting members, as long as there are shards for them, and turns the others away.
func (t *Team) admit(step, shards int) {
	l := t.lead
	defer func() { l.waiting = nil }()
	var body []byte
	var state []float32
	for _, m := range l.waiting {
		var g Greeting
		err := json.Unmarshal(m.Body, &g)
		if err == nil {
			err = l.Check(g)
		}
		if n := len(t.members); err == nil && n >= shards {
			err = fmt.Errorf("found %d members for %d shards, want at most as many", n+1, shards)
		}
		name := cmp.Or(g.Name, "a member")
		if err != nil {
			t.wire.Send(m.From, Message{Kind: End, Body: fmt.Appendf(nil, "%s: %v", name, err)})
			t.wire.Drop(m.From, err.Error())
			l.Note(fmt.Sprintf("%s cannot join: %v", name, err))
			continue
		}
		if slices.ContainsFunc(t.members, func(m Member) bool { return m.Name == name }) {
			name = fmt.Sprintf("%s#%d", name, m.From)
		}
		if state == nil {
			body, state = l.Welcome()
		}
		t.wire.Send(m.From, Message{Kind: Welcome, At: len(state), Body: body})
		for at := 0; at < len(state); at += chunk {
			t.wire.Send(m.From, Message{Kind: State, At: at, Values: state[at:min(at+chunk, len(state))]})
		}
		l.names[m.From] = name
		t.members = append(slices.Clone(t.members), Member{m.From, name, g.Address, g.Print})
		l.Note(fmt.Sprintf("+ %s (%d cores) from step %d", name, g.Cores, step+1))
	}
}

// Fetch collects the states of all shards after the last step at the leader, except those of lost members.
func (t *Team) Fetch(w Lasting) error {
	l := t.lead
	asked := map[int]bool{}
	for shard, id := range l.before {
		if id != Lead && t.memberAt(id) >= 0 {
			asked[shard] = true
			t.wire.Send(id, Message{Kind: Fetch, Node: shard})
		}
	}
	for len(asked) > 0 {
		m, err := t.wire.Receive(context.Background())
		if err != nil {
			return err
		}
		if m.Kind == Kept && asked[m.Node] && l.before[m.Node] == m.From {
			whole, err := w.Keep(m.Node, m.Body)
			if whole {
				delete(asked, m.Node)
			}
			if err != nil {
				t.wire.Drop(m.From, err.Error())
			}
		} else if err := t.leadTake(m); err != nil && !errors.Is(err, errAgain) {
			return err
		}
		maps.DeleteFunc(asked, func(shard int, _ bool) bool { return t.memberAt(l.before[shard]) < 0 })
	}
	t.tellLosses(t.round.Step)
	return nil
}

// End ends the run for all members. why is Finished or another reason.
func (t *Team) End(why string) error {
	if t.lead != nil {
		end := Message{Kind: End, Body: []byte(why)}
		t.toAll(end)
		for _, m := range t.lead.waiting {
			t.wire.Send(m.From, end)
		}
	}
	return t.wire.Close()
}
