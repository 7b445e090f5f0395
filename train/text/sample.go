package text

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/generate"
)

// samplePrompt is the prompt of sample texts.
type samplePrompt struct {
	ids  []int32
	text string
}

// choosePrompt sets the prompt to the configured one or, if there is none or the tokenizer cannot encode it, to the
// start of a chat or the first words of the validation text. It adds a note to the data set if the tokenizer cannot
// encode it.
func (tr *Work) choosePrompt() {
	tok := tr.Data.Tokenizer
	if text := tr.Config.Train.SamplePrompt; text != "" {
		ids, err := tok.Encode(nil, []byte(text))
		if err == nil && len(ids) > 0 {
			tr.prompt = samplePrompt{ids, text}
			return
		}
		if err == nil {
			err = fmt.Errorf("the tokenizer has no token for it")
		}
		tr.Data.Notes = append(tr.Data.Notes, fmt.Sprintf("train.sample_prompt: found %q: %v; "+
			"sample texts continue the beginning of the validation text instead", text, err))
	}
	if tr.Data.Valid.Given() && tr.promptOfChat() {
		return
	}
	const far = 1024 // tokens to look for words in
	begin := make([]int32, min(far, tr.Data.Valid.Len()))
	tr.Data.Valid.Read(begin, 0)
	text := firstWords(tok.Decode(nil, begin))
	if ids, err := tok.Encode(nil, []byte(text)); err == nil && len(ids) > 0 {
		tr.prompt = samplePrompt{ids, text}
		return
	}
	ids := begin[:min(8, len(begin))] // a text without words
	tr.prompt = samplePrompt{ids, string(tok.Decode(nil, ids))}
}

// promptOfChat sets the prompt to the text before the first reply of a complete chat in the validation text. It reports
// whether there is one.
func (tr *Work) promptOfChat() bool {
	const longest = 1 << 12
	valid := tr.Data.Valid
	windows, err := data.Windows(valid, 1, longest)
	if err != nil {
		return false
	}
	for w, err := range windows {
		if err != nil {
			return false
		}
		starts := w.Borders[0]
		if len(tr.Config.Valid) > 0 { // else the text may begin with the end of a chat
			starts = slices.Concat([]int{0}, starts)
		}
		for _, from := range starts {
			to := from
			for to < len(w.Inputs) && valid.IsGiven(w.Start+to) {
				to++
			}
			if to > from && !valid.IsGiven(w.Start+to) {
				ids := slices.Clone(w.Inputs[from:to])
				tr.prompt = samplePrompt{ids, string(tr.Data.Tokenizer.Decode(nil, ids))}
				return true
			}
		}
		break // no chat starts there
	}
	return false
}

// Limits of the prompt that firstWords returns.
const (
	promptRunes = 24
	promptWords = 3
)

// firstWords returns the first few whole words of a text on one line, or "" if there are none. The text may start in
// the middle of a word or of a character.
func firstWords(text []byte) string {
	partial := true // the first word may be only the end of one
	end := ""       // used only if nothing else is found
	for len(text) > 0 {
		n := 0 // bytes that can be printed on one line
		for n < len(text) {
			r, size := utf8.DecodeRune(text[n:])
			if r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) {
				break
			}
			n += size
		}
		line := string(text[:n])
		if partial {
			if _, rest, found := strings.Cut(line, " "); found {
				line = rest
			} else if utf8.RuneCountInString(line) < promptRunes {
				end, line = line, ""
			}
		}
		if words := cutWords(line); words != "" {
			return words
		}
		r, size := utf8.DecodeRune(text[n:])
		text, partial = text[n+size:], partial && r == utf8.RuneError
	}
	return cutWords(end)
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

// cutWords cuts a line before its first letter or number, after promptWords words and, at a space if there is one,
// after promptRunes characters.
func cutWords(line string) string {
	line = strings.TrimSpace(strings.TrimLeftFunc(line, func(r rune) bool { return !isWordRune(r) }))
	if parts := strings.Split(line, " "); len(parts) > promptWords {
		line = strings.Join(parts[:promptWords], " ")
	}
	runes := []rune(line)
	if len(runes) <= promptRunes {
		return line
	}
	line = string(runes[:promptRunes])
	if at := strings.LastIndexByte(line, ' '); at > 0 {
		line = line[:at]
	}
	return line
}

// SampleText generates a continuation of the prompt, always with the same random numbers, so that samples of different
// steps can be compared. The last sample is saved with the run.
func (tr *Work) SampleText(ctx context.Context) (string, error) {
	tok, ids, most := tr.Data.Tokenizer, tr.prompt.ids, tr.Config.Train.SampleTokens
	if longest := tr.Model.MaxLength(); longest > 0 {
		ids = ids[:min(len(ids), max(1, longest-1))]
		most = min(most, max(1, longest-len(ids)))
	}
	var ends []string
	if tr.Data.Valid.Given() {
		c, err := newChats(tr.texts, tr.Config.ReplyEnd, tok)
		if err != nil {
			return "", err
		}
		ends = c.ends
	}
	s := generate.NewBatch(tr.Model, 1)
	if err := s.Feed(ctx, ids); err != nil {
		return "", err
	}
	var text strings.Builder
	text.WriteString(tr.prompt.text)
	for piece, err := range s.Generate(ctx, tok, ids, generate.Options{Options: tr.Config.sampling(),
		MaxTokens: most, Stop: ends}) {
		if err != nil {
			return "", err
		}
		text.Write(piece.Text)
	}
	tr.sampled = text.String()
	return tr.sampled, nil
}
