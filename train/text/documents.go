package text

import (
	"fmt"

	"github.com/hippo-ssm/hippo/data"
)

// Values of Config.Documents.
const (
	documentsApart = "apart"
	documentsJoin  = "join"
)

// countAsked counts the targets that are not data.Ignore.
func countAsked(targets []int32) (n int) {
	for _, id := range targets {
		if id != data.Ignore {
			n++
		}
	}
	return n
}

// firstAsked returns the first pairs of a validation text, or more if these have no targets.
func firstAsked(tokens *data.Tokens, pairs int) (*data.Tokens, error) {
	for ; pairs < tokens.Len()-1; pairs *= 2 {
		part := tokens.Slice(0, pairs+1)
		if n, _, err := part.Targets(); err != nil || n > 0 {
			return part, err
		}
	}
	return tokens, nil
}

// next reads the sequences of an update. Unless states are carried over, it skips updates whose sequences have no
// targets, such as parts of long questions.
func (tr *Work) next() (anew bool, err error) {
	most := 1
	if tr.Data.Train.Given() && !tr.Config.Train.CarryState {
		most += tr.loader.TokensPerEpoch() / len(tr.inputs)
	}
	for range most {
		if anew, err = tr.loader.Next(tr.inputs, tr.targets); err != nil || countAsked(tr.targets) > 0 {
			return anew, err
		}
	}
	if most > 1 {
		err = fmt.Errorf("training text: found no token of a reply in it, want at least one")
	}
	return anew, err
}

// documentsNote returns a note on the number of documents, if there are several, and on the share of chats that counts.
func (d *Dataset) documentsNote() []string {
	if d.Train.Documents() < 2 {
		return nil
	}
	said := fmt.Sprintf("%d documents", d.Train.Documents())
	if d.Train.IsApart() {
		said += ", which see nothing of each other"
	}
	if d.Train.Given() {
		if n, _, err := d.Train.Targets(); err == nil {
			said += fmt.Sprintf("; %d of %d training tokens are of replies, which count", n, d.Train.Len())
		}
	}
	return []string{said}
}

// Span is a piece of a training text.
type Span struct {
	Text  string
	Given bool // only read, not part of the loss
	Count int  // tokens
}

// Example returns up to most tokens of document i of the training text, as spans that count in the loss and spans that
// do not, and the number of tokens of the whole document. ok is false after the last document.
func (d *Dataset) Example(i, most int) (spans []Span, tokens int, ok bool, err error) {
	all := d.Train
	if int64(i) >= all.Documents() {
		return nil, 0, false, nil
	}
	lo, hi, err := all.Document(i)
	if err != nil || lo >= all.Len() {
		return nil, 0, false, err // it belongs to the validation part
	}
	tokens, hi = hi-lo, min(hi, lo+most, all.Len())
	ids := make([]int32, hi-lo)
	if _, err := all.Read(ids, lo); err != nil {
		return nil, 0, false, err
	}
	for from := 0; from < len(ids); {
		given := all.Given() && all.IsGiven(lo+from)
		to := from
		for to < len(ids) && (all.Given() && all.IsGiven(lo+to)) == given {
			to++
		}
		text := string(d.Tokenizer.Decode(nil, ids[from:to]))
		spans, from = append(spans, Span{text, given, to - from}), to
	}
	return spans, tokens, true, nil
}
