package sessions

import (
	"context"

	"github.com/hippo-ssm/hippo/serve/records"
)

// StatesEnding is that of the names of files of states.
const StatesEnding = statesEnding

// Types of responses.
type (
	Ending  = ending
	Rewound = rewound
	Record  = record
)

// Lock locks the session of an id that belongs to everybody.
func (s *Handler) Lock(ctx context.Context, id string) (func(), error) {
	h, err := s.lockSession(ctx, place{"all", id})
	return h.Release, err
}

// Record reads the record of such a session.
func (s *Handler) Record(id string) (*Record, error) { return s.sessionRecord(place{"all", id}) }

// RecordName is the name of its record, and StatesName that of a file of its states.
func RecordName(id string) string { return place{"all", id}.recordName() }

// StatesName is the name of a file of the states of a session.
func StatesName(id, revision string) string { return place{"all", id}.states(revision) }

// Store is where sessions are stored.
func (s *Handler) Store() *records.Store { return s.store }
