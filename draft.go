package hippo

import (
	"fmt"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
)

// NGram is the name of drafts that n-grams of the text give (see generate.NGrams), and MTP of those that the model's
// own head for multi-token prediction gives (see generate.MTPDrafts).
const (
	NGram = "ngram"
	MTP   = "mtp"
)

// Draft returns a value for Options.Draft, with which the model writes what is easily guessed in fewer calls, and the
// same text: for NGram guesses by n-grams of the text, for MTP those of the model's own head, which is read from its
// files, for "" none, and otherwise those of the model in a folder, which load reads (nil for Load). It must have the
// tokens of m. Before Draft(MTP) no text may be in work.
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
