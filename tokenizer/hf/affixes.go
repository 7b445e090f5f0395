package hf

import (
	"encoding/json"
	"fmt"

	"github.com/hippo-ssm/hippo/internal/fault"
)

// templatePiece is one part of a template: a special token or a text.
type templatePiece struct {
	SpecialToken *struct {
		ID string `json:"id"`
	}
	Sequence *struct {
		ID string `json:"id"`
	}
}

// templateSpecial holds the ids of a special token in a template.
type templateSpecial struct {
	IDs []int32 `json:"ids"`
}

// tokenID is the id in ["text",id].
type tokenID struct{ id int32 }

func (t *tokenID) UnmarshalJSON(data []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(data, &pair); err != nil || len(pair) != 2 {
		return fmt.Errorf("found %.60q, want a token and its id", data)
	}
	return json.Unmarshal(pair[1], &t.id)
}

// maxAffixes is the maximum number of ids before or after a text.
const maxAffixes = 64

// postProcessor reads which ids are put around a text.
func (r *reader) postProcessor() {
	for i, p := range components(r.file.PostProcessor, processorSteps) {
		switch p.Type {
		case "ByteLevel": // concerns only the offsets of tokens in the text
		case "BertProcessing", "RobertaProcessing":
			r.before = append([]int32{p.Cls.id}, r.before...)
			r.after = append(r.after, p.Sep.id)
		case "TemplateProcessing":
			step(i, func() { fault.Within("TemplateProcessing", func() { r.template(p) }) })
		default:
			fault.Raisef("step %d: %.60q is not supported, want TemplateProcessing, ByteLevel, "+
				"BertProcessing or RobertaProcessing", i, p.Type)
		}
		if len(r.before)+len(r.after) > maxAffixes {
			fault.Raisef("more than %d tokens around a text", maxAffixes)
		}
	}
}

// template reads the tokens of a template for one text.
func (r *reader) template(p component) {
	var before, after []int32
	texts := 0
	for _, part := range p.Single {
		switch {
		case part.Sequence != nil:
			texts++
		case part.SpecialToken != nil:
			special, ok := p.Special[part.SpecialToken.ID]
			if !ok {
				fault.Raisef("%.60q is not among special_tokens", part.SpecialToken.ID)
			}
			if len(special.IDs) > maxAffixes || len(before)+len(after) > maxAffixes {
				fault.Raisef("more than %d tokens around a text", maxAffixes)
			}
			if texts == 0 {
				before = append(before, special.IDs...)
			} else {
				after = append(after, special.IDs...)
			}
		}
	}
	if texts != 1 {
		fault.Raisef("a template with the text %d times, want once", texts)
	}
	r.before = append(before, r.before...)
	r.after = append(r.after, after...)
}
