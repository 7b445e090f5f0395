package pipeline

import "bytes"

// Decoding is how the texts of tokens become the text that they stand for.
type Decoding struct {
	Steps []func(token string, opens bool) string // opens says that the token is the first of the text
	Left  int                                     // how many characters strip at the start of the text are dropped
	Strip string
}

// token is the text of a token.
func (d *Decoding) token(token string, opens bool) string {
	for _, step := range d.Steps {
		token = step(token, opens)
	}
	return token
}

// decodeText decodes ids that start a text, without the space that was put before the first word.
func (t *Tokenizer) DecodeText(dst []byte, ids []int32) []byte {
	if t.Decoding == nil || len(ids) == 0 {
		return t.Decode(dst, ids)
	}
	var text []byte
	if id := ids[0]; 0 <= id && int(id) < len(t.Tokens) {
		text = append(text, t.Decoding.token(t.Tokens[id], true)...)
	}
	text = t.Decode(text, ids[1:])
	for range t.Decoding.Left {
		text = bytes.TrimPrefix(text, []byte(t.Decoding.Strip))
	}
	return append(dst, text...)
}
