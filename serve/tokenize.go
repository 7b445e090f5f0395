package serve

import (
	"strings"

	"github.com/hippo-ssm/hippo/tokenizer"
)

// tokenizerInfo answers /tokenizer_info with what a harness asks of a tokenizer: keys of tokenizer_config.json.
func (s *openaiTexts) tokenizerInfo(c *call) error {
	m, err := s.host.model(c, c.r.URL.Query().Get("model"))
	if err != nil {
		return err
	}
	info := struct {
		EOS       *string `json:"eos_token"`
		BOS       *string `json:"bos_token"`
		Pad       *string `json:"pad_token"`
		Template  *string `json:"chat_template"`
		Class     string  `json:"tokenizer_class"`
		VocabSize int     `json:"vocab_size"`
	}{Class: m.tok.Kind(), VocabSize: m.tok.VocabSize()}
	eos := m.settings.EOS
	if end, ok := m.tok.EndOfText(); ok && eos == "" {
		eos = string(m.tok.Decode(nil, []int32{end}))
	}
	info.EOS, info.BOS, info.Template = orNull(eos), orNull(m.settings.BOS), orNull(m.settings.Source)
	return c.json(info)
}

// tokenize answers /tokenize: the ids of a text.
func (s *openaiTexts) tokenize(c *call) error {
	var q struct {
		Model   string  `json:"model"`
		Prompt  *string `json:"prompt"`
		Special *bool   `json:"add_special_tokens"`
		Texts   bool    `json:"return_token_strs"`
	}
	if err := c.read(&q); err != nil {
		return err
	}
	m, err := s.host.model(c, q.Model)
	if err != nil {
		return err
	}
	if q.Prompt == nil {
		return wrong("prompt", "found nothing, want a string")
	}
	encode := func(text []byte) ([]int32, error) { return m.tok.Encode([]int32{}, text) }
	if or(q.Special, true) {
		encode = func(text []byte) ([]int32, error) { return tokenizer.EncodeAffixed(m.tok, []int32{}, text) }
	}
	ids, err := encode([]byte(*q.Prompt))
	if err != nil {
		return wrong("prompt", "%v", err)
	}
	answer := struct {
		Tokens []int32  `json:"tokens"`
		Count  int      `json:"count"`
		Max    int      `json:"max_model_len"`
		Texts  []string `json:"token_strs,omitempty"`
	}{Tokens: ids, Count: len(ids), Max: m.net.MaxLength()}
	if q.Texts {
		for _, id := range ids {
			answer.Texts = append(answer.Texts, m.tokenText(id))
		}
	}
	return c.json(answer)
}

// detokenize answers /detokenize: the text of ids.
func (s *openaiTexts) detokenize(c *call) error {
	var q struct {
		Model  string   `json:"model"`
		Tokens *[]int32 `json:"tokens"`
	}
	if err := c.read(&q); err != nil {
		return err
	}
	m, err := s.host.model(c, q.Model)
	if err != nil {
		return err
	}
	if q.Tokens == nil {
		return wrong("tokens", "found nothing, want a list of token ids")
	}
	for i, id := range *q.Tokens {
		if id < 0 || int(id) >= m.tok.VocabSize() {
			return wrong("tokens", "found the token id %d at place %d, want ids from 0 to %d", id, i,
				m.tok.VocabSize()-1)
		}
	}
	text := strings.ToValidUTF8(string(m.tok.Decode(nil, *q.Tokens)), "\ufffd")
	return c.json(map[string]string{"prompt": text})
}
