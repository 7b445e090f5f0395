package sessions

import (
	"context"

	"github.com/hippo-ssm/hippo/serve/records"
)

// StatesEnding is the suffix of the names of state files.
const StatesEnding = statesEnding

// Types of responses.
type (
	Ending  = ending
	Rewound = rewound
	Record  = record
)

// Lock locks the session with an id, whose owner is "all".
func (s *Handler) Lock(ctx context.Context, id string) (func(), error) {
	h, err := s.lockSession(ctx, place{"all", id})
	return h.Release, err
}

// Record reads the record of such a session.
func (s *Handler) Record(id string) (*Record, error) { return s.sessionRecord(place{"all", id}) }

// RecordName returns the name of the record of such a session.
func RecordName(id string) string { return place{"all", id}.recordName() }

// StatesName returns the name of a state file of such a session.
func StatesName(id, revision string) string { return place{"all", id}.states(revision) }

// Store returns the store of sessions.
func (s *Handler) Store() *records.Store { return s.store }
