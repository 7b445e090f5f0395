package hippo

import (
	"fmt"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
)

// The names of drafts that need no second model, for Model.Draft. NGram drafts come from n-grams of the text (see
// generate.NGrams). MTP drafts come from the model's own head for multi-token prediction (see generate.MTPDrafts).
const (
	NGram = "ngram"
	MTP   = "mtp"
)

// Draft returns a value for Options.Draft, which makes the model generate the same text in fewer steps where the next
// tokens are easily guessed. The guesses come from
//
//   - n-grams of the text if by is NGram,
//   - the model's own head for multi-token prediction if by is MTP; Draft reads the head from the model's files,
//   - a small model otherwise: by is its folder, and load reads it. A nil load stands for Load.
//
// If by is "", Draft returns nil. The small model must have the tokenizer of m. Draft must not be called with MTP while
// a session of m is in use.
func (m *Model) Draft(by string, load func(dir string) (*Model, error)) (generate.Drafts, error) {
	switch by {
	case "":
		return nil, nil
	case NGram:
		return generate.NGrams, nil
	case MTP:
		if m.net.MTP == nil {
			h, err := release.LoadMTP(m.dir, m.net, (*model.MTP).LoadAlike)
			if err != nil {
				return nil, fmt.Errorf("draft %s: %w", by, err)
			}
			m.net.MTP = h
		}
		return generate.MTPDrafts, nil
	}
	if load == nil {
		load = func(dir string) (*Model, error) { return Load(dir) }
	}
	small, err := load(by)
	if err != nil {
		return nil, fmt.Errorf("draft: %w", err)
	}
	draft, err := generate.ModelDrafts(m.net, small.net)
	if err == nil && small.tok.Fingerprint() != m.tok.Fingerprint() {
		err = fmt.Errorf("found another tokenizer than that of %s, want the same", m.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("draft %s: %w", by, err)
	}
	return draft, nil
}
