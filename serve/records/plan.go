package records

import (
	"encoding/binary"

	"github.com/hippo-ssm/hippo/session"
)

// PlanPart is a segment with its ids as bytes, little-endian.
type PlanPart struct {
	IDs   []byte `json:"ids"`
	Drawn bool   `json:"drawn,omitempty"`
}

// PlanParts returns the parts of a plan.
func PlanParts(plan []session.Segment) (parts []PlanPart) {
	for _, s := range plan {
		p := PlanPart{Drawn: s.Drawn, IDs: make([]byte, 0, 4*len(s.IDs))}
		for _, id := range s.IDs {
			p.IDs = binary.LittleEndian.AppendUint32(p.IDs, uint32(id))
		}
		parts = append(parts, p)
	}
	return parts
}

// PlanSegments returns the plan with the given parts.
func PlanSegments(parts []PlanPart) (plan []session.Segment) {
	for _, p := range parts {
		s := session.Segment{Drawn: p.Drawn}
		for at := 0; at+4 <= len(p.IDs); at += 4 {
			s.IDs = append(s.IDs, int32(binary.LittleEndian.Uint32(p.IDs[at:])))
		}
		plan = append(plan, s)
	}
	return plan
}

// PlanPrefix returns the first n ids of a plan.
func PlanPrefix(plan []session.Segment, n int) (out []session.Segment) {
	for _, s := range plan {
		k := min(n, len(s.IDs))
		if k > 0 {
			out = append(out, session.Segment{IDs: s.IDs[:k], Drawn: s.Drawn})
		}
		n -= k
	}
	return out
}

// PlanIDs returns the ids of a plan.
func PlanIDs(plan []session.Segment) (ids []int32) {
	for _, s := range plan {
		ids = append(ids, s.IDs...)
	}
	return ids
}
