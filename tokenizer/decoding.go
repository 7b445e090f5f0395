package tokenizer

import "bytes"

// decoding is how the texts of tokens become the text that they stand for.
type decoding struct {
	steps []func(token string, opens bool) string // opens says that the token is the first of the text
	left  int                                     // how many characters strip at the beginning of the text are dropped
	strip string
}

// token is the text of a token.
func (d *decoding) token(token string, opens bool) string {
	for _, step := range d.steps {
		token = step(token, opens)
	}
	return token
}

// decodeText decodes ids that begin a text, without the space that was put before the first word.
func (t *pipeline) decodeText(dst []byte, ids []int32) []byte {
	if t.decoding == nil || len(ids) == 0 {
		return t.Decode(dst, ids)
	}
	var text []byte
	if id := ids[0]; 0 <= id && int(id) < len(t.tokens) {
		text = append(text, t.decoding.token(t.tokens[id], true)...)
	}
	text = t.Decode(text, ids[1:])
	for range t.decoding.left {
		text = bytes.TrimPrefix(text, []byte(t.decoding.strip))
	}
	return append(dst, text...)
}
