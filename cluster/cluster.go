// Package cluster is the members of a run on many machines: who is there, what each computes, and the exchange of
// their sums. It knows no models: numbers are float32 side by side, a shard is a number.
//
// Member 0 leads. It cuts a step's shards into runs, one for each member, and sends each member what its shards need.
// A member computes its shards, which it adds as far as the tree of shards allows (Node), and sends each node's part
// to the owner of a range of numbers. The owner adds the nodes in the order of the tree and sends the sum to all. So
// no bit of a sum depends on who computed what, and a lost member costs its shards alone: others compute them in
// another round of the same step. A sum counts when the leader says that all have it.
//
// A Wire carries messages: Local between goroutines, by a clock of its own, TCP between machines, MPI on
// clusters that have it.
package cluster

import (
	"context"
	"errors"
	"time"
)

// ID names a member. Member 0 leads; a member that comes back has another.
type ID int

// Lead is the leader.
const Lead ID = 0

// Wire carries messages between members. Those from one member to another come in order. Receive is for one goroutine,
// the rest for any.
type Wire interface {
	Self() ID
	// Send queues a message and does not wait. What is sent to a lost member is dropped.
	Send(to ID, m Message)
	// Ready waits until little is queued for a member, or it is lost.
	Ready(ctx context.Context, to ID) error
	// Receive returns the next message: of a member or, of kind Gone and Hello, of the wire itself.
	Receive(ctx context.Context) (Message, error)
	// Poll is Receive where there is a message at once.
	Poll() (m Message, ok bool)
	// Know says who else is there. Others are disconnected.
	Know(members []Member)
	// Drop disconnects a member. A Gone that says why follows, unless one has come before.
	Drop(id ID, why string)
	// Patience is how long a member may be silent before it is dropped.
	Patience(d time.Duration)
	// Close ends all connections when what is queued has been sent.
	Close() error
}

// Kind is what a Message is about.
type Kind uint8

// The kinds of messages. Bodies are JSON unless it says otherwise.
const (
	Hello   Kind = iota + 1 // a member wants to join; a Greeting. From is its new ID
	Welcome                 // the leader has let it in; the body says into what, At the length of its state
	State                   // Values at At
	Rows                    // of shard Node, in the body: what it needs
	Round                   // a round begins
	Part                    // Values at At, of the round's node Node
	Sum                     // Values at At, of all
	Done                    // a member has all sums; results
	Commit                  // the sum counts; an Outcome
	End                     // the run has ended; the body is why, as text
	Gone                    // a member is lost; the body is why, as text
	Lost                    // a member cannot reach another, which Node says; the body is why, as text
	Alive                   // the leader asks a member that Node cannot reach whether it is there; it sends it back
	Fetch                   // the leader asks for the state of shard Node
	Kept                    // a part of the state of shard Node, in the body
	Deal                    // the leader says who sends which parts to whom; see Keeper
	Piece                   // Values at At of part Node, of deal Round
	Have                    // a member has all parts of deal Round that it gets
	ping                    // of wires
	bye                     // of MPI: nothing more comes
)

// Message is what members send. Its receiver may keep it, and change the Values of a Part.
type Message struct {
	From   ID
	Kind   Kind
	Round  uint64
	Node   int
	At     int
	Body   []byte
	Values []float32
}

// Member is a member as the leader describes it to others.
type Member struct {
	ID      ID     `json:"id"`
	Name    string `json:"name"`
	Address string `json:"address,omitempty"` // host:port; an empty host means the leader's machine
	Print   []byte `json:"print,omitempty"`   // SHA-256 of its certificate
}

// Greeting is what a member says of itself when it joins.
type Greeting struct {
	Name     string   `json:"name"`
	Cores    int      `json:"cores"`
	Version  string   `json:"version"`  // of the program
	Arch     string   `json:"arch"`     // of the processor
	Levels   []string `json:"levels"`   // of its features, from the lowest
	Device   string   `json:"device"`   // on which it computes; "" for the processor
	Settings string   `json:"settings"` // that it was started with, as text; "" if it takes the leader's
	Rank     int      `json:"rank"`     // that a launcher gave it, 0 for none
	Address  string   `json:"address"`  // at which it listens; set by the wire
	Print    []byte   `json:"print"`    // likewise
}

// EndedError says that the leader has ended the run for this member.
type EndedError struct{ Why string }

// Error says why.
func (e *EndedError) Error() string { return e.Why }

// ErrLeaderGone says that the leader is lost: a run continues when it does.
var ErrLeaderGone = errors.New("the leader is gone")

// Why a run ends that is complete, and one that its leader was asked to stop, to be resumed.
const (
	Finished    = "finished"
	Interrupted = "interrupted"
)
