package train

import (
	"fmt"

	"github.com/hippo-ssm/hippo/cluster"
)

// CarriedWork is a SharedWork whose examples may continue from the states at which those of the previous update ended.
type CarriedWork interface {
	SharedWork
	// Carries reports whether examples continue from states. Begins reports whether those of this update begin anew
	// nevertheless.
	Carries() bool
	Begins() bool
	// States returns the states that a shard continues from, as messages. SetStates takes one message and reports
	// whether it was the last.
	States(s Shard) [][]byte
	SetStates(s Shard, part []byte) (whole bool, err error)
}

// carrying is a group whose shards continue from states. The states stay on the machine that computed the shard. The
// leader fetches them for checkpoints, and before it gives shards to machines that join. The states depend on all
// earlier weights, so those of a lost machine are lost unless the leader has just fetched them.
type carrying struct {
	*group
	work  CarriedWork
	known map[int]int // by shard: the leader has the states before this update
}

var _ cluster.Lasting = (*carrying)(nil)

// begin records which states the leader has before an update.
func (c *carrying) begin() {
	if c.known == nil || c.work.Begins() {
		c.known = map[int]int{}
		for i := range c.shards {
			c.known[i] = c.loop.step
		}
	}
}

// Bits returns the number of bits of a number in a sum.
func (c *carrying) Bits() int { return 32 }

// Again returns an error if no other machine can compute a shard, because its states are lost.
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

// The kind of a message about a shard, in its first byte.
const (
	carriedRows = iota
	carriedStates
)

// Rows returns the rows of a shard, preceded by its states if the receiver did not compute it in the previous update.
func (c *carrying) Rows(shard int, anew bool) (all [][]byte) {
	if anew && !c.work.Begins() {
		all = c.State(shard)
		for i := range all {
			all[i] = append([]byte{carriedStates}, all[i]...)
		}
	}
	return append(all, append([]byte{carriedRows}, c.work.Rows(c.shards[shard])...))
}

// Take stores a message of Rows.
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

// State returns the states of a shard, as messages.
func (c *carrying) State(shard int) [][]byte {
	if shard < 0 || shard >= len(c.shards) {
		return nil
	}
	return c.work.States(c.shards[shard])
}

// Keep stores a message of State and reports whether it was the last.
func (c *carrying) Keep(shard int, part []byte) (whole bool, err error) {
	if shard < 0 || shard >= len(c.shards) {
		return false, fmt.Errorf("states: found those of shard %d, want a number below %d", shard, len(c.shards))
	}
	if whole, err = c.work.SetStates(c.shards[shard], part); whole && c.leads {
		c.known[shard] = c.loop.step
	}
	return whole, err
}
