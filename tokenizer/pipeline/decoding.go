package pipeline

import "bytes"

// Decoding converts the texts of tokens to the text that they represent.
type Decoding struct {
	Steps []func(token string, opens bool) string // opens: the token is the first one of the text
	Left  int                                     // how many copies of Strip to remove at the start of the text
	Strip string
}

// token returns the decoded text of a token.
func (d *Decoding) token(token string, opens bool) string {
	for _, step := range d.Steps {
		token = step(token, opens)
	}
	return token
}

// DecodeText decodes ids at the start of a text, without the space that was inserted before the first word.
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
