package cluster

import (
	"context"
	"fmt"
	"time"
)

// Join waits until the leader admits a member whose wire has greeted it. It calls room with the body of the welcome and
// the length of the state, and receives the state into the slice that room returns. The error is *EndedError if the
// leader refuses, ErrLeaderGone if it is lost, or an error of room.
func Join(ctx context.Context, w Wire, room func(body []byte, state int) ([]float32, error),
	now func() time.Time) (*Team, error) {
	t := &Team{wire: w, now: now}
	var state []float32
	welcome := false
	for at := 0; !welcome || at < len(state); {
		m, err := w.Receive(ctx)
		if err != nil {
			return nil, err
		}
		if m.From != Lead {
			continue
		}
		switch m.Kind {
		case Welcome:
			if state, err = room(m.Body, m.At); err != nil {
				return nil, err
			}
			if len(state) != m.At {
				return nil, fmt.Errorf("the leader's state: found %d numbers, want %d", m.At, len(state))
			}
			welcome = true
		case State:
			if !welcome || m.At != at || len(m.Values) > len(state)-at || len(m.Values) == 0 {
				return nil, fmt.Errorf("the leader's state: found %d numbers at %d, want %d from %d on", len(m.Values),
					m.At, len(state)-at, at)
			}
			at += copy(state[at:], m.Values)
		case End:
			return nil, &EndedError{string(m.Body)}
		case Gone:
			return nil, fmt.Errorf("%w: %s", ErrLeaderGone, m.Body)
		}
	}
	return t, nil
}

// Leave ends the member's part in the run.
func (t *Team) Leave() error { return t.wire.Close() }
