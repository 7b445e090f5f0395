package sessions

import (
	"cmp"
	"slices"

	"github.com/hippo-ssm/hippo/serve/records"
	"github.com/hippo-ssm/hippo/serve/request"
)

// Paired is the second session of a view of two.
type Paired struct {
	ID       string  `json:"id"`
	Position int     `json:"position"` // tokens of its text
	IDs      []int32 `json:"-"`        // starting at the same position as those of Viewed, and at most as many
}

// pairLead is the number of common tokens that a view shows before two sessions diverge, if there are so many.
const pairLead = 16

// pair adds the second session of a view to x, which has all tokens of its record. It is the requested session, or the
// nearest one that diverges. pair shortens both to the requested number of tokens. It reads texts from the last stored
// records, without locking the second session, so two requests for the same pair in opposite order cannot deadlock.
func (s *Handler) pair(c *request.Call, a *asked, x *Viewed, of *record) error {
	p := place{c.Owner(), a.other}
	if a.other != "" {
		r, err := s.latestRecord(p)
		if err != nil {
			return err
		}
		return x.beside(of, r, a.tokens)
	}
	near, err := s.nearSessions(p.owner, of)
	if err != nil {
		return err
	}
	first := request.Invalid("other",
		"found no fork of the session %s, and it is none itself: want a session of the same model "+
			"that it is to be compared with, or a fork", of.ID)
	for i, id := range near {
		r, err := s.latestRecord(place{p.owner, id})
		if err != nil {
			continue // deleted meanwhile, or damaged: try another
		}
		if err = x.beside(of, r, a.tokens); err == nil {
			return nil
		}
		if i == 0 {
			first = request.ErrorOf(err)
		}
	}
	return first
}

// latestRecord returns the record of a session with its last change, which may be unsaved.
func (s *Handler) latestRecord(p place) (*record, error) {
	r, err := s.sessionRecord(p)
	if err != nil {
		return nil, err
	}
	if changed := s.unsaved.get(p, r.Revision); changed != nil {
		return changed, nil
	}
	return r, nil
}

// nearSessions returns the client's related sessions: forks of this one, its origin, and other forks of the origin, in
// this order. Within each group, the last changed session comes first.
func (s *Handler) nearSessions(owner string, of *record) (near []string, err error) {
	ids, _, err := s.sessionsOf(owner)
	if err != nil {
		return nil, err
	}
	type found struct {
		id      string
		far     int
		changed int64
	}
	var all []found
	for _, id := range ids {
		var r struct { // without the text
			Session
			Identity string `json:"identity"`
		}
		if id == of.ID || records.Get(s.store, place{owner, id}.recordName(), &r) != nil || r.Identity != of.Identity {
			continue
		}
		far := -1
		switch {
		case r.From != nil && r.From.ID == of.ID:
			far = 0
		case of.From != nil && of.From.ID == id:
			far = 1
		case of.From != nil && r.From != nil && r.From.ID == of.From.ID:
			far = 2
		default:
			continue
		}
		all = append(all, found{id, far, r.Changed})
	}
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(b.changed, a.changed), cmp.Compare(a.id, b.id))
	})
	for _, f := range all {
		near = append(near, f.id)
	}
	return near, nil
}

// beside adds the second session r to x, which has all its tokens. It shortens both to at most the given number of
// tokens. These are the last ones, including some common tokens before the position where the sessions diverge.
func (x *Viewed) beside(of, r *record, most int) error {
	if r.ID == of.ID {
		return request.Invalid("other", "found the session itself, %s, want another one", r.ID)
	}
	if r.Identity != of.Identity {
		return request.Invalid("other",
			"found the session %s of the model %s, and %s is of %s: want two of one model with the "+
				"same weights", r.ID, r.Model, of.ID, of.Model)
	}
	ids := records.PlanIDs(records.PlanSegments(r.Plan))
	shorter, longest := min(len(x.IDs), len(ids)), max(len(x.IDs), len(ids))
	common := 0
	for common < shorter && x.IDs[common] == ids[common] {
		common++
	}
	if common == shorter {
		return request.Invalid("other",
			"found the sessions %s of %d tokens and %s of %d, of which the first %d are the same: "+
				"want two that part before one of them ends; go on with both", of.ID, len(x.IDs), r.ID, len(ids),
			common)
	}
	from := max(0, min(longest-most, common-min(pairLead, most/2)))
	cut := func(ids []int32) []int32 { return ids[from:min(len(ids), from+most)] }
	x.Other = &Paired{ID: r.ID, Position: len(ids), IDs: cut(ids)}
	x.Before, x.Behind, x.IDs = from, max(0, len(x.IDs)-from-most), cut(x.IDs)
	x.LogProbs = x.LogProbs[from:][:len(x.IDs)]
	return nil
}
