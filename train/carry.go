package train

import (
	"fmt"

	"github.com/hippo-ssm/hippo/cluster"
)

// CarriedWork is a SharedWork whose examples may go on from states, where those of the update before have ended.
type CarriedWork interface {
	SharedWork
	// Carries reports whether they do, Begins whether those of this update begin anew all the same.
	Carries() bool
	Begins() bool
	// States are those that a shard goes on from, in messages. SetStates takes each, and reports whether it was the
	// last.
	States(s Shard) [][]byte
	SetStates(s Shard, part []byte) (whole bool, err error)
}

// carrying is a group whose shards go on from states, which stay with the machine that has computed the shard. The
// leader gets them for checkpoints, and before machines that join get shards. They depend on all weights before, so
// that those of a lost machine are lost unless the leader has just got them.
type carrying struct {
	*group
	work  CarriedWork
	known map[int]int // the update before which the leader has the states of a shard
}

var _ cluster.Lasting = (*carrying)(nil)

// begin notes which states there are before an update.
func (c *carrying) begin() {
	if c.known == nil || c.work.Begins() {
		c.known = map[int]int{}
		for i := range c.shards {
			c.known[i] = c.loop.step
		}
	}
}

// Bits of a number of a sum.
func (c *carrying) Bits() int { return 32 }

// Again says why no other machine can compute a shard.
func (c *carrying) Again(shard int) error {
	if at, there := c.known[shard]; there && at == c.loop.step {
		return nil
	}
	return fmt.Errorf("the states that its shards go on from are lost (train.carry_state)%s", c.loop.goesOn())
}

// Compute computes a shard.
func (c *carrying) Compute(shard int, ready func(lo, hi int)) (cluster.Result, error) {
	r, err := c.group.Compute(shard, ready)
	if err == nil && c.leads {
		c.known[shard] = c.loop.step + 1
	}
	return r, err
}

// What a message about a shard is: its first byte.
const (
	carriedRows = iota
	carriedStates
)

// Rows are the rows of a shard and, for who has not computed it in the update before, the states.
func (c *carrying) Rows(shard int, anew bool) (all [][]byte) {
	if anew && !c.work.Begins() {
		all = c.State(shard)
		for i := range all {
			all[i] = append([]byte{carriedStates}, all[i]...)
		}
	}
	return append(all, append([]byte{carriedRows}, c.work.Rows(c.shards[shard])...))
}

// Take keeps a message of Rows.
func (c *carrying) Take(shard int, text []byte) error {
	if len(text) > 0 && text[0] == carriedStates {
		_, err := c.Keep(shard, text[1:])
		return err
	}
	if len(text) == 0 || text[0] != carriedRows {
		return fmt.Errorf("rows of shard %d: found %d bytes that are neither rows nor states", shard, len(text))
	}
	return c.group.Take(shard, text[1:])
}

// State is that of a shard, in messages.
func (c *carrying) State(shard int) [][]byte {
	if shard < 0 || shard >= len(c.shards) {
		return nil
	}
	return c.work.States(c.shards[shard])
}

// Keep keeps a message of State.
func (c *carrying) Keep(shard int, part []byte) (whole bool, err error) {
	if shard < 0 || shard >= len(c.shards) {
		return false, fmt.Errorf("states: found those of shard %d, want a number below %d", shard, len(c.shards))
	}
	if whole, err = c.work.SetStates(c.shards[shard], part); whole && c.leads {
		c.known[shard] = c.loop.step
	}
	return whole, err
}
