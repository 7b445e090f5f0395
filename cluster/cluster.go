// Package cluster coordinates the members of a run on many machines: it tracks who takes part, deals out the work and
// exchanges the members' sums. It knows no models: a gradient is a slice of float32, a shard is a number.
//
// Member 0 leads. It cuts a step's shards into runs, one for each member, and sends each member what its shards need. A
// member computes its shards and adds them as far as the tree of shards allows (see Node). It sends the part of each
// node to the owner of a range of numbers. The owner adds the nodes in the order of the tree and sends the sum to all
// members. So no bit of a sum depends on who computed what. A lost member costs only its own shards: others compute
// them in another round of the same step. A sum counts when the leader says that all members have it.
//
// A Wire carries messages: Local between goroutines with a simulated clock, TCP between machines, MPI on clusters that
// have it.
package cluster

import (
	"context"
	"errors"
	"time"
)

// ID identifies a member. Member 0 leads. A member that comes back has a new ID.
type ID int

// Lead is the ID of the leader.
const Lead ID = 0

// Wire carries messages between members. Messages from one member to another arrive in order. Only one goroutine may
// call Receive; any may call the other methods.
type Wire interface {
	Self() ID
	// Send queues a message and does not wait. Messages to a lost member are dropped.
	Send(to ID, m Message)
	// Ready waits until the queue of messages to a member is short, or the member is lost.
	Ready(ctx context.Context, to ID) error
	// Receive returns the next message. It comes from a member or, if its kind is Gone or Hello, from the wire itself.
	Receive(ctx context.Context) (Message, error)
	// Poll returns the next message if there is one, without waiting.
	Poll() (m Message, ok bool)
	// Know sets the members of the run. All others are disconnected, except from the leader, where new members wait.
	Know(members []Member)
	// Drop disconnects a member. A Gone message with the reason follows, unless one has come before.
	Drop(id ID, why string)
	// Patience sets how long a member may be silent before it is dropped.
	Patience(d time.Duration)
	// Close sends the queued messages and closes all connections.
	Close() error
}

// Kind is the kind of a Message.
type Kind uint8

// The kinds of messages. Bodies are JSON unless noted otherwise.
const (
	Hello   Kind = iota + 1 // a member wants to join; the body is a Greeting, From its new ID
	Welcome                 // the leader admits the member; the body describes the run, At is the length of the state
	State                   // the part of the state from At on, in Values
	Rows                    // what a member needs to compute shard Node, in the body
	Round                   // a round begins
	Part                    // the part from At on of the round's node Node, in Values
	Sum                     // the sum of all nodes from At on, in Values
	Done                    // a member has all sums; the body is its results
	Commit                  // the sum counts; the body is an Outcome
	End                     // the run has ended; the body is the reason, as text
	Gone                    // a member is lost; the body is the reason, as text
	Lost                    // a member cannot reach member Node; the body is the reason, as text
	Alive                   // the leader asks a member that Node cannot reach whether it is alive; it sends this back
	Fetch                   // the leader asks for the state of shard Node
	Kept                    // a part of the state of shard Node, in the body
	Deal                    // the leader says who sends which parts to whom; see Keeper
	Piece                   // numbers of part Node from At on, in Values, for deal Round
	Have                    // a member has received all its parts of deal Round
	ping                    // a heartbeat, sent and received by wires
	bye                     // sent by MPI: the process sends nothing more
)

// Message is a message between members. The receiver may keep it, and may change the Values of a Part.
type Message struct {
	From   ID
	Kind   Kind
	Round  uint64
	Node   int
	At     int
	Body   []byte
	Values []float32
}

// Member describes a member to the others. The leader sends it.
type Member struct {
	ID      ID     `json:"id"`
	Name    string `json:"name"`
	Address string `json:"address,omitempty"` // host:port; an empty host means the leader's machine
	Print   []byte `json:"print,omitempty"`   // SHA-256 of its certificate
}

// Greeting describes a member that wants to join.
type Greeting struct {
	Name     string   `json:"name"`
	Cores    int      `json:"cores"`
	Version  string   `json:"version"`  // of the program
	Arch     string   `json:"arch"`     // of the processor
	Levels   []string `json:"levels"`   // of the processor's features, lowest first
	Device   string   `json:"device"`   // the device that computes; "" for the processor
	Settings string   `json:"settings"` // the settings it was started with, as text; "" if it takes the leader's
	Rank     int      `json:"rank"`     // set by a launcher, 0 for none
	Address  string   `json:"address"`  // where it listens; set by the wire
	Print    []byte   `json:"print"`    // SHA-256 of its certificate; set by the wire
}

// EndedError reports that the leader has ended the run for this member.
type EndedError struct{ Why string }

// Error returns the reason.
func (e *EndedError) Error() string { return e.Why }

// ErrLeaderGone reports that the leader is lost. The run continues when the leader does.
var ErrLeaderGone = errors.New("the leader is gone")

// Reasons for the end of a run: it is complete, or its leader was asked to stop and the run is to be resumed.
const (
	Finished    = "finished"
	Interrupted = "interrupted"
)
