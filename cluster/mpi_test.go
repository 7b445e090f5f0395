package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// world simulates MPI between goroutines, with the rules that a wire relies on: messages from one process to another
// fill the receives in order, a send is done when it is received, and a send that is longer than its receive is an
// error.
type world struct {
	mu       sync.Mutex
	sends    map[[2]int][]*toyRequest
	receives map[[2]int][]*toyRequest
	open     int // unfinished requests of processes that have ended
	aborted  []int
	ended    int
}

type toyRequest struct {
	packet []byte
	done   bool
	err    error
}

// toyMPI is the mpiCalls of one process.
type toyMPI struct {
	*world
	rank    int
	stopped bool // the process is stopped: it sends and receives nothing
	left    int  // requests that are not done
}

func (m *toyMPI) post(mine, theirs map[[2]int][]*toyRequest, pair [2]int, b []byte, send bool) (*mpiRequest, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := &toyRequest{packet: b}
	r := &mpiRequest{b, own}
	m.left++
	waiting := theirs[pair]
	if len(waiting) == 0 {
		mine[pair] = append(mine[pair], own)
		return r, nil
	}
	other := waiting[0]
	theirs[pair] = waiting[1:]
	from, to := other, own
	if send {
		from, to = own, other
	}
	if len(from.packet) > len(to.packet) {
		to.err = fmt.Errorf("found %d bytes for %d", len(from.packet), len(to.packet))
	}
	copy(to.packet, from.packet)
	from.done, to.done = true, true
	return r, nil
}

func (m *toyMPI) isend(b []byte, to int) (*mpiRequest, error) {
	return m.post(m.sends, m.receives, [2]int{m.rank, to}, b, true)
}

func (m *toyMPI) irecv(b []byte, from int) (*mpiRequest, error) {
	return m.post(m.receives, m.sends, [2]int{from, m.rank}, b, false)
}

func (m *toyMPI) test(r *mpiRequest) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := r.kept.(*toyRequest)
	if !own.done || m.stopped {
		return false, nil
	}
	m.left--
	return true, own.err
}

func (m *toyMPI) finalize() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended++
	m.open += m.left
	return nil
}

func (m *toyMPI) abort(status int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.aborted = append(m.aborted, status)
}

// byMPI returns the wires of a world of processes.
func byMPI(t *testing.T, size int) (*world, []*MPI, []*toyMPI) {
	t.Helper()
	all := &world{sends: map[[2]int][]*toyRequest{}, receives: map[[2]int][]*toyRequest{}}
	wires, calls := make([]*MPI, size), make([]*toyMPI, size)
	for i := range wires {
		calls[i] = &toyMPI{world: all, rank: i}
		w, err := newMPI(func() (mpiCalls, int, int, error) { return calls[i], i, size, nil },
			Greeting{Name: fmt.Sprintf("m%d", i)})
		if err != nil {
			t.Fatal(err)
		}
		wires[i] = w
	}
	return all, wires, calls
}

// TestMPI checks that members connected by MPI get the same weights as a single member, and that MPI ends with no
// request open and without Abort.
func TestMPI(t *testing.T) {
	const size, shards, steps = 1000, 7, 6
	want, _ := alone(t, size, shards, steps)
	all, wires, _ := byMPI(t, 3)
	w := newToy(size, shards)
	team := lead(wires[0], w, func(string) {})
	var members sync.WaitGroup
	for _, m := range wires[1:] {
		members.Go(func() {
			got, err := follow(m, size, shards, steps)
			if err != nil {
				t.Error(err)
				return
			}
			sameWeights(t, "a member", got.weights, want.weights)
			m.Abort(1)
		})
	}
	if _, err := team.Gather(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if _, err := w.train(team, steps); err != nil {
		t.Error(err)
	}
	if err := team.End(Finished); err != nil {
		t.Error(err)
	}
	members.Wait()
	wires[0].Abort(1)
	sameWeights(t, "the leader", w.weights, want.weights)
	if all.ended != 3 || all.open != 0 || len(all.aborted) > 0 {
		t.Errorf("%d of 3 processes ended MPI, %d requests are open, aborts: %v", all.ended, all.open, all.aborted)
	}
}

// TestMPIMessages checks that messages of any size, including those of many packets, arrive unchanged and in order.
func TestMPIMessages(t *testing.T) {
	defer func(was int) { chunk = was }(chunk)
	chunk = 1 << 16 // as in programs
	_, wires, _ := byMPI(t, 2)
	var sent []Message
	for _, n := range []int{0, 1, 100, packetSize/8 + 1, 1<<16 - 1, 1 << 16} {
		for _, body := range []int{0, 1, packetSize - headSize, packetSize, 5*packetSize + 3} {
			m := Message{Kind: Part, Round: uint64(n), Node: body, At: n * body}
			for i := range body {
				m.Body = append(m.Body, byte(i*7+n))
			}
			for i := range n {
				m.Values = append(m.Values, float32(i+body))
			}
			sent = append(sent, m)
			wires[1].Send(0, m)
		}
	}
	if m, err := wires[0].Receive(t.Context()); err != nil || m.Kind != Hello || m.From != 1 {
		t.Fatalf("found %v, %v, want a greeting", m.Kind, err)
	}
	for i, want := range sent {
		got, err := wires[0].Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want.From = 1
		if !bytes.Equal(got.Body, want.Body) || !slices.Equal(got.Values, want.Values) || got.Kind != want.Kind ||
			got.Round != want.Round || got.Node != want.Node || got.At != want.At || got.From != want.From {
			t.Fatalf("message %d of %d bytes and %d values is another", i, len(want.Body), len(want.Values))
		}
	}
	closed(wires...)
}

// TestMPIKnown checks that a message from one process to another is held until the leader has told the receiver about
// the sender.
func TestMPIKnown(t *testing.T) {
	_, wires, _ := byMPI(t, 3)
	for _, nobody := range []ID{-1, 2, 3} { // IDs that are no other process
		wires[2].Send(nobody, Message{Kind: Part})
	}
	wires[2].Send(1, Message{Kind: Part, Node: 5})
	for held := 0; held == 0; time.Sleep(time.Millisecond) {
		if m, ok := wires[1].Poll(); ok {
			t.Fatalf("found %v of process %d too early", m.Kind, m.From)
		}
		wires[1].mu.Lock()
		held = len(wires[1].held)
		wires[1].mu.Unlock()
	}
	wires[1].Know([]Member{{ID: 0}, {ID: 1}, {ID: 2}})
	if m, ok := wires[1].Poll(); !ok || m.From != 2 || m.Node != 5 {
		t.Errorf("found %+v, want what process 2 has sent", m)
	}
	closed(wires...)
}

func closed(wires ...*MPI) {
	var all sync.WaitGroup
	for _, w := range wires {
		all.Go(func() { w.Close() })
	}
	all.Wait()
}

// TestMPILoss checks that a process that is silent, leaves or is dropped ends the run of the leader, with an error that
// names it, and that another process learns that it has lost the leader. If a process is silent, MPI is aborted instead
// of ended.
func TestMPILoss(t *testing.T) {
	hear := func(t *testing.T, w *MPI, kind Kind) {
		t.Helper()
		if m, err := w.Receive(t.Context()); err != nil || m.Kind != kind {
			t.Fatalf("found %v, %v, want %v", m.Kind, err, kind)
		}
	}
	for _, c := range []struct {
		name, want string
		lost       int
		lose       func(t *testing.T, wires []*MPI, calls []*toyMPI)
		whole      bool
	}{
		{"silent", "one: silent for", 1, func(t *testing.T, wires []*MPI, calls []*toyMPI) {
			calls[1].mu.Lock()
			calls[1].stopped = true
			calls[1].mu.Unlock()
			hear(t, wires[0], Hello)
			hear(t, wires[0], Hello)
			wires[2].Send(0, Message{Kind: Part}) // heard later, however long a turn takes
			hear(t, wires[0], Part)
			wires[0].Patience(10 * time.Millisecond)
		}, false},
		{"leaves", "two: it has ended", 2, func(_ *testing.T, wires []*MPI, _ []*toyMPI) { go wires[2].Close() }, true},
		{"dropped", "two: of no use", 2, func(_ *testing.T, wires []*MPI, _ []*toyMPI) {
			wires[0].Drop(2, "of no use")
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, wires, calls := byMPI(t, 3)
			wires[0].Know([]Member{{ID: 0, Name: "zero"}, {ID: 1, Name: "one"}, {ID: 2, Name: "two"}})
			c.lose(t, wires, calls)
			for {
				m, err := wires[0].Receive(t.Context())
				if err == nil && m.Kind == Hello {
					continue
				}
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("found %v, %v, want %q", m, err, c.want)
				}
				break
			}
			other := 3 - c.lost
			wires[0].Send(ID(other), Message{Kind: End, Body: []byte("why")})
			over := make(chan struct{})
			go func() {
				wires[0].Close()
				close(over)
			}()
			if m, err := wires[other].Receive(t.Context()); err != nil || m.Kind != End {
				t.Errorf("found %v, %v, want the end", m, err)
			}
			if m, err := wires[other].Receive(t.Context()); err != nil || m.Kind != Gone || m.From != Lead {
				t.Errorf("found %v, %v, want the loss of the leader", m, err)
			}
			if c.whole {
				closed(wires...)
			}
			<-over
			wires[0].Abort(3)
			if all.mu.Lock(); c.whole != (len(all.aborted) == 0) || !c.whole && all.aborted[0] != 3 {
				t.Errorf("aborts: %v", all.aborted)
			}
			all.mu.Unlock()
		})
	}
}

// TestMPIFails checks that an error of an MPI call ends Receive and Close, and that newMPI returns an error of the
// start.
func TestMPIFails(t *testing.T) {
	broken := errors.New("broken")
	if _, err := newMPI(func() (mpiCalls, int, int, error) { return nil, 0, 0, broken }, Greeting{}); err != broken {
		t.Errorf("found %v", err)
	}
	all, wires, _ := byMPI(t, 2)
	all.mu.Lock()
	for _, r := range all.receives[[2]int{1, 0}] {
		r.done, r.err = true, broken
	}
	all.mu.Unlock()
	for {
		m, err := wires[0].Receive(context.Background())
		if err == nil && m.Kind == Hello {
			continue
		}
		if !errors.Is(err, broken) {
			t.Errorf("found %v, %v", m, err)
		}
		break
	}
	wires[0].Close()
}
