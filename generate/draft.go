package generate

import "context"

// Drafter guesses how a text goes on. The model verifies the guess in one call of a few positions, which takes little
// longer than a call of one, and draws the same ids as without: a wrong guess costs time, and changes nothing. This is
// speculative decoding (arXiv:2211.17192), but a guess is right where it is what the model draws, so that no random
// number is used in another place. A Drafter is for one text, and for one goroutine at a time.
type Drafter interface {
	// Draft returns up to n ids that may follow text, none if it has no guess. It must not change text.
	Draft(ctx context.Context, text []int32, n int) ([]int32, error)
}

// batchDrafter is a Drafter that guesses by more than ids: by a batch that has read all of text but its last id.
type batchDrafter interface {
	Drafter
	draftAt(ctx context.Context, s *Batch, text []int32, n int) ([]int32, error)
}

// Drafts makes a Drafter for a text.
type Drafts func() Drafter

// drafting decides how much is guessed: more while guesses come true, and after those that do not nothing for a while.
type drafting struct {
	Drafter
	width  int     // the most ids of the next guess
	guess  []int32 // ids that were guessed and not drawn yet
	hits   int     // ids of the last guess that were drawn
	misses int     // guesses in a row of which no id was
	rest   int     // draws without a guess

	drafted, accepted int
}

// The width of the first guess, and the longest rest.
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

// next returns a guess of up to n ids after text, of which s has read all but the last.
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

// drawn learns from an id that was drawn.
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
