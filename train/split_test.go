package train

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/cluster"
	"github.com/hippo-ssm/hippo/nn"
)

// splitSize is the number of weights of the tests' model. It does not divide into equal parts.
const splitSize = 20_000

// splitWork returns a work with many weights, each with a different target.
func splitWork() *shared {
	w := &shared{toy: newToy()}
	w.w = nn.NewParam(nn.Weight, nn.Constant(0), splitSize)
	nn.InitAll(w.toy, "", 1)
	start, wanted := make([]float32, splitSize), make([]float32, splitSize)
	for i := range start {
		start[i], wanted[i] = float32(i%7), float32(i%11)
	}
	w.w.CopyFrom(start)
	w.fixed = wanted
	return w
}

// splitPlan returns the plan of a run of six updates.
func splitPlan(t *testing.T) Plan {
	p := toyPlan(t)
	p.Shards, p.Steps, p.Split, p.EvalEvery, p.SaveEvery = 4, 6, true, 100, 100
	return p
}

// member is a member of a team in this process.
type member struct {
	wire cluster.Wire
	loop *Training
	err  chan error
}

// splitTeam starts a run with other members besides the leader.
func splitTeam(t *testing.T, n *cluster.Local, l *Training, others int) (team *cluster.Team, all []*member) {
	t.Helper()
	return teamOf(t, n, l, others, func() (*Training, error) { return New(splitPlan(t), splitWork()) })
}

// teamOf starts a run with other members, each of which trains the result of start.
func teamOf(t *testing.T, n *cluster.Local, l *Training, others int,
	start func() (*Training, error)) (team *cluster.Team, all []*member) {
	t.Helper()
	team = cluster.NewLeader(n.Wire(cluster.Greeting{}), "lead", cluster.Host{
		Check: func(cluster.Greeting) error { return nil },
		Welcome: func() ([]byte, []float32) {
			state, err := l.State()
			if err != nil || l.Plan.Split && len(state) != splitSize+1 {
				t.Errorf("a state of %d numbers, %v, want the weights", len(state), err)
			}
			return fmt.Append(nil, l.step), state
		},
		Note: func(string) {},
	}, time.Now)
	for i := range others {
		m := &member{wire: n.Wire(cluster.Greeting{Name: fmt.Sprintf("m%d", i+1)}), err: make(chan error, 1)}
		all = append(all, m)
		loop, err := start()
		if err != nil {
			t.Fatal(err)
		}
		m.loop = loop
		go func() {
			var state []float32
			step := 0
			team, err := cluster.Join(context.Background(), m.wire, func(body []byte, n int) (_ []float32, err error) {
				_, err = fmt.Sscan(string(body), &step)
				loop.work.(*shared).reads = step
				state = make([]float32, n)
				return state, err
			}, time.Now)
			if err == nil {
				err = errors.Join(loop.SetState(state), loop.Follow(context.Background(), team, step, Events{}),
					team.Leave())
			}
			m.err <- err
		}()
	}
	if _, err := team.Gather(t.Context(), others); err != nil {
		t.Fatal(err)
	}
	if err := l.Lead(team); err != nil {
		t.Fatal(err)
	}
	return team, all
}

// TestSplitMemory checks that each of n members that split the moments has 2/n of their bytes, give or take a part,
// even the leader after it has saved a checkpoint. Weights and checkpoint have the bits of one machine alone. If two
// neighbors are lost at once, the error says how to continue, and the run continues from its checkpoint to the same
// weights.
func TestSplitMemory(t *testing.T) {
	alone := splitPlan(t)
	alone.Split = false
	single, err := New(alone, splitWork())
	if err != nil {
		t.Fatal(err)
	}
	var half []byte
	step := func(l *Training) error {
		_, _, err := l.Step()
		return err
	}
	save := func(l *Training) ([]byte, error) {
		if err := l.write(filepath.Join(l.Plan.Out, "last")); err != nil {
			return nil, err
		}
		l.savedStep = l.step
		return os.ReadFile(filepath.Join(l.Plan.Out, "last", optimizerFile))
	}
	for single.step < alone.Steps {
		if single.step == 3 {
			if half, err = save(single); err != nil {
				t.Fatal(err)
			}
		}
		if err := step(single); err != nil {
			t.Fatal(err)
		}
	}
	const whole = 8 * splitSize
	for others := range 4 {
		n := cluster.NewLocal()
		p := splitPlan(t)
		leader, err := New(p, splitWork())
		if err != nil {
			t.Fatal(err)
		}
		team, members := splitTeam(t, n, leader, others)
		for leader.step < 3 {
			if err := step(leader); err != nil {
				t.Fatal(err)
			}
		}
		got, err := save(leader)
		if err != nil || !slices.Equal(got, half) {
			t.Errorf("%d others: the checkpoint of %d bytes differs from that of one machine, %v", others, len(got),
				err)
		}
		most := min(whole, 2*whole/(others+1)+2*whole/len(leader.split.parts))
		if n := leader.split.bytes(); n > most {
			t.Errorf("%d others: the leader keeps %d bytes of %d, want at most %d", others, n, whole, most)
		}
		if others == 3 { // both members that keep a part are lost
			n.Kill(members[0].wire.Self())
			n.Kill(members[1].wire.Self())
			err := step(leader)
			text := fmt.Sprint(err)
			if lost := new(cluster.LostPartsError); !errors.As(err, &lost) || lost.Parts < 10 ||
				strings.Contains(text, "\n") || !strings.Contains(text, "m1 and m2 kept them") ||
				!strings.Contains(text, "--resume "+p.Out+" goes on from the checkpoint of step 3") {
				t.Errorf("both keepers lost: %v", err)
			}
			if err := team.End("over"); err != nil {
				t.Error(err)
			}
			n.Close()
			n = cluster.NewLocal()
			again, err := New(p, splitWork())
			if err != nil {
				t.Fatal(err)
			}
			team, members = splitTeam(t, n, again, 2)
			again.work.(*shared).w.CopyFrom(leader.work.(*shared).w.Elements()) // the step was not made
			s := Saved{Step: 3, Updates: 3, Work: []byte("3")}
			if err := again.Restore(&s, filepath.Join(p.Out, "last")); err != nil {
				t.Fatal(err)
			}
			leader, most = again, 2*whole/3+2*whole/len(again.split.parts)
		}
		for leader.step < p.Steps {
			if err := step(leader); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(leader.work.(*shared).w.Elements(), single.work.(*shared).w.Elements()) {
			t.Errorf("%d others: the weights differ from those of one machine", others)
		}
		if err := team.End(cluster.Finished); err != nil {
			t.Error(err)
		}
		for i, m := range members {
			if err := <-m.err; err != nil {
				t.Errorf("%d others: member %d: %v", others, i+1, err)
			}
			if n := m.loop.split.bytes(); n > most || n < most/2 {
				t.Errorf("%d others: member %d keeps %d bytes, want at most %d", others, i+1, n, most)
			}
			if m.loop.opt.Steps() != p.Steps || !slices.Equal(m.loop.work.(*shared).w.Elements(),
				single.work.(*shared).w.Elements()) {
				t.Errorf("%d others: the weights of member %d differ from those of one machine", others, i+1)
			}
		}
		n.Close()
	}
}
