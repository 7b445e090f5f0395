package generate

import "context"

// Drafter guesses the continuation of a text. The model verifies the guess in one call of a few positions, which takes
// little longer than a call of one. The sampled ids are the same as without guesses: a wrong guess costs only time.
// This is speculative decoding (arXiv:2211.17192), except that a guess is right if it equals the sampled id, so that
// random numbers are used as without guesses. A Drafter is for one text and must be used by one goroutine at a time.
type Drafter interface {
	// Draft returns up to n ids that may follow text, or none if it has no guess. It must not change text.
	Draft(ctx context.Context, text []int32, n int) ([]int32, error)
}

// batchDrafter is a Drafter that guesses from a batch that has read all of text but its last id, and not from the ids
// alone.
type batchDrafter interface {
	Drafter
	draftAt(ctx context.Context, s *Batch, text []int32, n int) ([]int32, error)
}

// Drafts returns a new Drafter for a text.
type Drafts func() Drafter

// drafting decides how many ids are guessed: more while guesses are right, and none for a while after wrong ones.
type drafting struct {
	Drafter
	width  int     // maximum number of ids of the next guess
	guess  []int32 // guessed ids that have not been compared yet
	hits   int     // number of right ids of the last guess
	misses int     // number of consecutive guesses without a right id
	rest   int     // number of ids to sample without a guess

	drafted, accepted int
}

// firstWidth is the width of the first guess, and longestRest the maximum of rest.
const (
	firstWidth  = 4
	longestRest = 32
)

func newDrafting(make Drafts) *drafting {
	if make == nil {
		return nil
	}
	return &drafting{Drafter: make(), width: firstWidth}
}

// next returns a guess of up to n ids after text. s has read all of text but its last id.
func (d *drafting) next(ctx context.Context, s *Batch, text []int32, n int) (ids []int32, err error) {
	d.guess, d.hits = nil, 0
	if n = min(n, d.width); n < 1 || d.rest > 0 {
		return nil, nil
	}
	if by, ok := d.Drafter.(batchDrafter); ok {
		ids, err = by.draftAt(ctx, s, text, n)
	} else {
		ids, err = d.Draft(ctx, text, n)
	}
	if err != nil {
		return nil, err
	}
	d.guess = ids[:min(n, len(ids))]
	d.drafted += len(d.guess)
	return d.guess, nil
}

// drawn compares a sampled id with the guess and adapts width and rest.
func (d *drafting) drawn(id int32) {
	switch {
	case len(d.guess) == 0:
		d.rest = max(0, d.rest-1)
	case d.guess[0] != id:
		d.guess, d.width = nil, d.hits+1
		if d.hits > 0 {
			d.misses = 0
			return
		}
		d.misses++
		d.rest = min(longestRest, d.misses)
	default:
		d.accepted++
		d.hits++
		if d.guess = d.guess[1:]; len(d.guess) == 0 {
			d.width, d.misses = min(StepRows, 2*d.width), 0
		}
	}
}
