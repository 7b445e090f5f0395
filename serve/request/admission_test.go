package request

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// crowd is a set of clients' requests for the places of one admission.
type crowd struct {
	*Admission
	t       *testing.T
	mu      sync.Mutex
	order   []string // clients in the order of admission
	refused []error
}

// ask sends n requests of a client. Each runs until Leave is called.
func (c *crowd) ask(who Share, n int) {
	for range n {
		go func() {
			err := c.Enter(c.t.Context(), who)
			c.mu.Lock()
			defer c.mu.Unlock()
			if err != nil {
				c.refused = append(c.refused, err)
				return
			}
			c.order = append(c.order, who.Client)
		}()
	}
	synctest.Wait()
}

func (c *crowd) running(client string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(c.Admission.running.by[client])
}

func apart(client string) Share { return Share{Client: client, Others: true} }

// TestOneKeyLeavesPlaces checks that 330 streams of one client, more than may run and wait, leave a place for the next
// client at once, and for the one after that, and that only the greedy one is refused.
func TestOneKeyLeavesPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{t: t, Admission: NewAdmission(64, 256, time.Minute)}
		c.ask(apart("greedy"), 330)
		if n, q := c.Running(), c.Queued(); n != 48 || q != 192 || len(c.refused) != 330-48-192 {
			t.Errorf("%d run, %d wait and %d are refused of one client's, want 48, 192 and 90", n, q, len(c.refused))
		}
		e := ErrorOf(c.refused[0])
		if e.Status != http.StatusTooManyRequests || e.Retry == 0 || !strings.Contains(e.Message, "192") {
			t.Errorf("it is refused with %+v", e)
		}
		c.ask(apart("other"), 330)
		if n := c.running("other"); n < 8 {
			t.Errorf("%d of another client's run, want some", n)
		}
		for _, late := range []string{"a", "b", "c"} {
			if c.ask(apart(late), 1); c.running(late) != 1 {
				t.Errorf("a client that comes later has no place beside %d", c.Running())
			}
		}
		for c.running("greedy") > 0 { // requests that end free places for both equally
			c.Leave("greedy")
			synctest.Wait()
			if a, b := c.running("greedy"), c.running("other"); a < b-1 {
				break
			}
		}
		if a, b := c.running("greedy"), c.running("other"); a > b+1 || b > a+2 {
			t.Errorf("%d of one run and %d of the other, want as many", a, b)
		}
		time.Sleep(2 * time.Minute) // the others wait in vain
		synctest.Wait()
		if c.Queued() != 0 {
			t.Errorf("%d are queued after their time", c.Queued())
		}
	})
}

// TestTakingTurns checks that queued clients take turns, whoever sent more requests first, and that a client's oldest
// request is first.
func TestTakingTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{t: t, Admission: NewAdmission(1, 100, time.Hour)}
		c.ask(Share{Client: "x"}, 1)
		for range 3 {
			c.ask(Share{Client: "a"}, 2)
		}
		c.ask(Share{Client: "b"}, 2)
		c.ask(Share{Client: "c"}, 1)
		for c.Running() > 0 {
			c.Leave(c.order[len(c.order)-1])
			synctest.Wait()
		}
		if want := strings.Fields("x a b c a b a a a a"); !slices.Equal(c.order, want) {
			t.Errorf("the order is %q, want %q", c.order, want)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{t: t, Admission: NewAdmission(4, 100, time.Hour)}
		for _, n := range []struct {
			client string
			n      int
		}{{"a", 3}, {"b", 1}, {"a", 2}, {"b", 2}} {
			c.ask(Share{Client: n.client}, n.n)
		}
		for _, client := range []string{"b", "a", "a"} {
			c.Leave(client)
			synctest.Wait()
		}
		if got, want := c.order[4:], strings.Fields("b b a"); !slices.Equal(got, want) {
			t.Errorf("the places go to %q, want %q, who have fewer", got, want)
		}
		for _, client := range strings.Fields("a b b a b") {
			c.Leave(client)
			synctest.Wait()
		}
	})
}

// TestBatchesWaitLast checks that lines of a client's batch run after its other requests, and in order.
func TestBatchesWaitLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAdmission(1, 100, time.Hour)
		var order []string
		if err := a.Enter(t.Context(), Share{Client: "a"}); err != nil {
			t.Fatal(err)
		}
		for _, name := range strings.Fields("line1 line2 x line3 y") {
			go func() {
				if a.Enter(t.Context(), Share{Client: "a", Last: strings.HasPrefix(name, "line")}) == nil {
					order = append(order, name)
				}
			}()
			synctest.Wait()
		}
		for range 6 {
			a.Leave("a")
			synctest.Wait()
		}
		if want := strings.Fields("x y line1 line2 line3"); !slices.Equal(order, want) {
			t.Errorf("the order is %q, want %q", order, want)
		}
	})
}

// TestBodiesOfOneKey checks that the bodies of one client leave memory for those of others.
func TestBodiesOfOneKey(t *testing.T) {
	all := NewBodies(1 << 20)
	read := func(who Share) (n int64) {
		for all.add(who, 1<<12, "bytes") == nil {
			n += 1 << 12
		}
		return n
	}
	if n := read(apart("greedy")); n != 6<<20 {
		t.Errorf("one client has %d bytes, want three quarters of %d", n, 8<<20)
	}
	if n := read(apart("other")); n < 1<<20 {
		t.Errorf("another has %d bytes, want a whole body", n)
	}
	all.free("greedy", 6<<20)
	all.free("other", all.taken)
	if n := read(Share{Client: "alone"}); n != 8<<20 {
		t.Errorf("a client that is alone has %d bytes", n)
	}
}

// TestPlacesOfAKey checks that a key's limit holds even if places are free, does not delay others, and that its next
// request gets the place that one of its own frees. A single client may have all places.
func TestPlacesOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{t: t, Admission: NewAdmission(10, 10, time.Hour)}
		few := Share{Client: "few", Most: 2, Others: true}
		c.ask(few, 4)
		if c.running("few") != 2 || c.Queued() != 2 {
			t.Errorf("%d run and %d wait, want 2 and 2", c.running("few"), c.Queued())
		}
		if c.ask(apart("b"), 3); c.running("b") != 3 {
			t.Errorf("%d of another run, want 3", c.running("b"))
		}
		c.Leave("b")
		synctest.Wait()
		if c.running("few") != 2 {
			t.Errorf("%d run of 2", c.running("few"))
		}
		c.Leave("few")
		synctest.Wait()
		if c.running("few") != 2 || c.Queued() != 1 {
			t.Errorf("%d run and %d wait, want 2 and 1", c.running("few"), c.Queued())
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		cancel(gone)
		if err := c.Enter(ctx, few); !errors.Is(err, gone) || c.Queued() != 1 {
			t.Errorf("a client that is gone gets %v, and %d wait", err, c.Queued())
		}
		c.Leave("few")
		synctest.Wait()
		for c.Running() > 0 {
			c.Leave(c.order[len(c.order)-1])
			synctest.Wait()
			c.order = c.order[:len(c.order)-1]
		}
		d := &crowd{t: t, Admission: NewAdmission(10, 10, time.Hour)}
		if d.ask(Share{Client: "alone"}, 20); d.Running() != 10 || d.Queued() != 10 || len(d.refused) > 0 {
			t.Errorf("%d run, %d wait and %d are refused, want 10, 10 and 0", d.Running(), d.Queued(), len(d.refused))
		}
	})
}

// TestRank checks that a client's request of the lowest rank is first, and lines of batches are last. Another client
// has its turn whatever the ranks.
func TestRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{t: t, Admission: NewAdmission(1, 100, time.Hour)}
		c.ask(Share{Client: "x"}, 1)
		var order []string
		enter := func(name string, who Share) {
			go func() {
				if err := c.Enter(t.Context(), who); err != nil {
					t.Error(err)
				}
				order = append(order, name)
				c.Leave(who.Client)
			}()
			synctest.Wait()
		}
		enter("batch", Share{Client: "a", Last: true, Rank: -9})
		enter("late", Share{Client: "a", Rank: 5})
		enter("plain", Share{Client: "a"})
		enter("early", Share{Client: "a", Rank: -5})
		enter("plain2", Share{Client: "a"})
		enter("other", Share{Client: "b", Rank: 1 << 30})
		c.Leave("x")
		synctest.Wait()
		if want := strings.Fields("early other plain plain2 late batch"); !slices.Equal(order, want) {
			t.Errorf("the order is %q, want %q", order, want)
		}
	})
}
