package receipt

import (
	"context"
	"errors"
	"fmt"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Reasons why a receipt cannot be audited.
var (
	ErrLevel  = errors.New("it was computed at another level of the processor, which rounds otherwise")
	ErrPrompt = errors.New("it has only the hash of its prompt")
)

// Token is a token of a reply with its logit and its link.
type Token struct {
	ID    int32   `json:"id"`
	Logit float32 `json:"logit"`
	Link  string  `json:"link"` // link of the chain of logits
}

// Difference describes the first token that differs.
type Difference struct {
	At       int    `json:"at"` // index in the reply, from 0
	Receipt  Token  `json:"receipt"`
	Computed Token  `json:"computed"`
	End      string `json:"end,omitempty"` // why the computed reply ended, if that differs
}

// Has reports whether the receipt contains the ids of its prompt.
func (r *Receipt) Has() bool {
	for _, p := range r.Prompt {
		if p.IDs == nil {
			return false
		}
	}
	return true
}

// SetPrompt adds the ids of the prompt to a receipt that has only their hash.
func (r *Receipt) SetPrompt(ids []int32) error {
	rest := ids
	if found := session.TextHash(ids); found != r.PromptHash {
		return fmt.Errorf("prompt: found %d tokens with the hash %s, want %s", len(ids), found, r.PromptHash)
	}
	for i := range r.Prompt {
		p := &r.Prompt[i]
		if p.Tokens > len(rest) {
			return fmt.Errorf("prompt: found %d tokens, want more", len(ids))
		}
		p.IDs, rest = rest[:p.Tokens:p.Tokens], rest[p.Tokens:]
	}
	if len(rest) > 0 {
		return fmt.Errorf("prompt: found %d tokens, want %d", len(ids), len(ids)-len(rest))
	}
	return nil
}

// Fits returns nil if a model in this program computes the same bits as the receipt's. Otherwise it returns ErrLevel or
// an error of package session.
func (r *Receipt) Fits(m *model.Model, tok tokenizer.Tokenizer) error {
	err := session.Identify(m, tok).Check(r.Identity, m)
	if level := m.Level(); level != r.CPU && (err == nil || errors.Is(err, session.ErrKernels)) {
		return fmt.Errorf("%w: found %s, and this program computes with %s: set HIPPO_CPU=%s on a machine that has it",
			ErrLevel, r.CPU, level, r.CPU)
	}
	return err
}

// Audit computes the reply again, alone. It returns the first token that differs, or nil for an equal reply. It does
// not check whether the model fits; see Fits.
func (r *Receipt) Audit(ctx context.Context, m *model.Model, tok tokenizer.Tokenizer) (*Difference, error) {
	return r.audit(ctx, m, tok, nil)
}

// AuditFrom audits as Audit does, but from a state in the prompt, whose file has the given hash. It does not compute
// the text before the state. The state must be the one that the receipt names, if it names one.
func (r *Receipt) AuditFrom(ctx context.Context, m *model.Model, tok tokenizer.Tokenizer, from *session.Session,
	hash string) (*Difference, error) {
	if r.State != nil && r.State.Hash != hash {
		return nil, fmt.Errorf("state: found %s, want %s, which the receipt names", hash, r.State.Hash)
	}
	return r.audit(ctx, m, tok, from)
}

// continues returns a batch that starts from a state, or from the beginning if the state is nil, and the segments of
// the plan that follow.
func continues(m *model.Model, tok tokenizer.Tokenizer, plan []session.Segment, from *session.Session) (
	*generate.Batch, []session.Segment, error) {
	if from == nil {
		s := generate.NewBatch(m, 1)
		s.Chunk = session.Chunk(m)
		return s, plan, nil
	}
	whole, err := session.From(m, tok, session.Options{Budget: -1}, session.Text{Plan: plan})
	if err != nil {
		return nil, nil, err
	}
	at, ids, own := from.Snapshot(), whole.IDs(), from.IDs()
	switch n := at.Position; {
	case n < 1 || n > len(ids):
		return nil, nil, fmt.Errorf("state: found it at token %d, want one of the %d of the prompt", n, len(ids))
	case n == len(ids) && at.Logits == nil:
		return nil, nil, fmt.Errorf("state: found no logits at the end of the prompt, want them")
	}
	for i := range at.Position {
		if ids[i] != own[i] {
			return nil, nil, fmt.Errorf("state: found another text, which differs from the prompt at token %d", i)
		}
		if whole.IsCut(i+1) != from.IsCut(i+1) {
			return nil, nil, fmt.Errorf("state: found a text that was read in other pieces at token %d, which "+
				"rounds otherwise", i+1)
		}
	}
	return at.Session(m), whole.SegmentsFrom(at.Position), nil
}

func (r *Receipt) audit(ctx context.Context, m *model.Model, tok tokenizer.Tokenizer, from *session.Session) (
	*Difference, error) {
	if !r.Has() {
		return nil, ErrPrompt
	}
	var plan []session.Segment
	for _, p := range r.Prompt {
		plan = append(plan, session.Segment{IDs: p.IDs, Drawn: p.Drawn})
	}
	ids := idsOf(plan)
	if found := session.TextHash(ids); found != r.PromptHash {
		return nil, fmt.Errorf("prompt: found ids with the hash %s, want %s", found, r.PromptHash)
	}
	for _, some := range [][]int32{ids, r.IDs} {
		for _, id := range some {
			if id < 0 || int(id) >= m.Config.VocabSize {
				return nil, fmt.Errorf("found the id %d, want ids from 0 to %d", id, m.Config.VocabSize-1)
			}
		}
	}
	if most := m.MaxLength(); most > 0 && len(ids)+len(r.IDs)-1 > most {
		return nil, fmt.Errorf("found %d tokens, want at most %d, the length of the model", len(ids)+len(r.IDs), most)
	}
	w, err := generate.NewWriter(tok, ids, r.Settings.options())
	if err != nil {
		return nil, err
	}
	s, rest, err := continues(m, tok, plan, from)
	if err != nil {
		return nil, err
	}
	again := &auditing{receipt: r, writer: w, chain: newChain()}
	err = session.Direct{}.Run(ctx, &session.Request{Session: s, Segments: rest, Next: again.next})
	return again.found, err
}

// auditing is a reply that is being recomputed.
type auditing struct {
	receipt *Receipt
	writer  *generate.Writer
	chain   *chain
	at      int
	found   *Difference
}

// next compares the next token with the receipt and returns its id.
func (a *auditing) next(logits []float32) (id int32, more bool, err error) {
	r := a.receipt
	want := Token{r.IDs[a.at], r.Logits[a.at], r.Chain[a.at]}
	if id = want.ID; !r.Settings.Constrained {
		if _, id, err = a.writer.Next(logits); err != nil {
			return 0, false, err
		}
	}
	got, last := (Token{id, logits[id], a.chain.add(logits)}), a.at == len(r.IDs)-1
	end := a.writer.End()
	if got != want {
		a.found = &Difference{At: a.at, Receipt: want, Computed: got}
	} else if !r.Settings.Constrained && (end != "") != last || last && end != "" && end != r.End {
		a.found = &Difference{At: a.at, Receipt: want, Computed: got, End: end}
	}
	a.at++
	return id, a.found == nil && !last, nil
}
