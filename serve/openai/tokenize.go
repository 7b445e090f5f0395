package openai

import (
	"strings"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TokenizerInfo responds to /tokenizer_info with the keys of tokenizer_config.json that a harness needs.
func (s *Texts) TokenizerInfo(c *request.Call) error {
	m, err := s.Host.Model(c, c.Query("model"))
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
	}{Class: m.Tokenizer.Kind(), VocabSize: m.Tokenizer.VocabSize()}
	info.EOS, info.BOS, info.Template = request.OrNull(eosOf(m)), request.OrNull(m.Settings.BOS),
		request.OrNull(m.Settings.Source)
	return c.JSON(info)
}

// eosOf returns the text of the token that ends a text, or "" if there is none.
func eosOf(m *host.Model) string {
	if end, ok := m.Tokenizer.EndOfText(); ok && m.Settings.EOS == "" {
		return string(m.Tokenizer.Decode(nil, []int32{end}))
	}
	return m.Settings.EOS
}

// tokenizeRequest is the body of /tokenize.
type tokenizeRequest struct {
	Model   string  `json:"model"`
	Prompt  *string `json:"prompt"`
	Special *bool   `json:"add_special_tokens"`
	Texts   bool    `json:"return_token_strs"`
}

// Tokenize responds to /tokenize with the ids of a text.
func (s *Texts) Tokenize(c *request.Call) error {
	var q tokenizeRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	m, err := s.Host.Model(c, q.Model)
	if err != nil {
		return err
	}
	if q.Prompt == nil {
		return request.Invalid("prompt", "found nothing, want a string")
	}
	encode := func(text []byte) ([]int32, error) { return m.Tokenizer.Encode([]int32{}, text) }
	if request.Or(q.Special, true) {
		encode = func(text []byte) ([]int32, error) { return tokenizer.EncodeAffixed(m.Tokenizer, []int32{}, text) }
	}
	ids, err := encode([]byte(*q.Prompt))
	if err != nil {
		return request.Invalid("prompt", "%v", err)
	}
	response := struct {
		Tokens []int32  `json:"tokens"`
		Count  int      `json:"count"`
		Max    int      `json:"max_model_len"`
		Texts  []string `json:"token_strs,omitempty"`
	}{Tokens: ids, Count: len(ids), Max: s.ContextLength(m.Net.MaxLength())}
	if q.Texts {
		for _, id := range ids {
			response.Texts = append(response.Texts, m.TokenText(id))
		}
	}
	return c.JSON(response)
}

// detokenizeRequest is the body of /detokenize.
type detokenizeRequest struct {
	Model  string   `json:"model"`
	Tokens *[]int32 `json:"tokens"`
}

// Detokenize responds to /detokenize with the text of ids.
func (s *Texts) Detokenize(c *request.Call) error {
	var q detokenizeRequest
	if err := c.Read(&q); err != nil {
		return err
	}
	m, err := s.Host.Model(c, q.Model)
	if err != nil {
		return err
	}
	if q.Tokens == nil {
		return request.Invalid("tokens", "found nothing, want a list of token ids")
	}
	for i, id := range *q.Tokens {
		if id < 0 || int(id) >= m.Tokenizer.VocabSize() {
			return request.Invalid("tokens", "found the token id %d at place %d, want ids from 0 to %d", id, i,
				m.Tokenizer.VocabSize()-1)
		}
	}
	text := strings.ToValidUTF8(string(m.Tokenizer.Decode(nil, *q.Tokens)), "\ufffd")
	return c.JSON(map[string]string{"prompt": text})
}
