package batch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// plainText is a text whose probability is to be computed, after a context if it has one.
type plainText struct {
	Context  string  `json:"context"`
	Text     *string `json:"text"`
	Logprobs bool    `json:"logprobs"` // include those of the tokens
}

// plainForms are the fields that determine the kind of a line without a url, and the endpoint for it.
var plainForms = []struct{ field, endpoint string }{
	{"text", completions}, {"messages", "/v1/chat/completions"}, {"prompt", completions}, {"input", "/v1/embeddings"},
}

const completions = "/v1/completions"

// plain parses a line that is a request's body alone or a text to be scored. It returns a description of an error, or
// "".
func (r *items) plain(line []byte, it *item) string {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return "want a JSON object: " + err.Error()
	}
	var names, all []string
	endpoint := ""
	for _, f := range plainForms {
		if all = append(all, f.field); fields[f.field] != nil {
			names, endpoint = append(names, f.field), f.endpoint
		}
	}
	if len(names) != 1 {
		found := cmp.Or(strings.Join(names, " and "), "no such field")
		return fmt.Sprintf("found %s, want url and body, or one of %s", found, strings.Join(all, ", "))
	}
	if !slices.Contains(r.endpoints, endpoint) {
		return fmt.Sprintf("%s: found it, and no model that takes it", names[0])
	}
	if names[0] != "text" {
		delete(fields, "custom_id")
	} else {
		it.text = &plainText{}
		if err := json.Unmarshal(line, it.text); err != nil || it.text.Text == nil {
			return fmt.Sprintf("text: found %.60s, want text and context as strings, logprobs as true or false",
				some(fields["text"]))
		}
		model := fields["model"]
		fields = map[string]json.RawMessage{"max_tokens": []byte("0"), "echo": []byte("true"), "logprobs": []byte("1")}
		if model != nil {
			fields["model"] = model
		}
		prompt, err := json.Marshal(it.text.Context + *it.text.Text)
		if err != nil {
			return err.Error()
		}
		fields["prompt"] = prompt
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return err.Error()
	}
	return it.request(endpoint, body)
}

// textScore is the probability of a text. Tokens that have nothing before them are not counted.
type textScore struct {
	Object      string       `json:"object"`
	Model       string       `json:"model"`
	Tokens      int          `json:"tokens"`
	Bytes       int          `json:"bytes"`
	LogProb     float64      `json:"logprob"` // the sum over the tokens, in nats
	Loss        *float64     `json:"loss"`    // the mean, positive
	Perplexity  *float64     `json:"perplexity"`
	BitsPerByte *float64     `json:"bits_per_byte"`
	Greedy      bool         `json:"greedy"` // each token is the most probable one
	Logprobs    []tokenScore `json:"logprobs,omitempty"`
}

type tokenScore struct {
	Token   string  `json:"token"`
	LogProb float64 `json:"logprob"`
}

// score turns the response for a text into its score: that of the tokens after the context that contain a part of the
// text.
func (p *plainText) score(body []byte) ([]byte, error) {
	var said struct {
		Model   string `json:"model"`
		Choices []struct {
			Logprobs struct {
				Tokens []string             `json:"tokens"`
				Values []*float64           `json:"token_logprobs"`
				Top    []map[string]float64 `json:"top_logprobs"`
				Offset []int                `json:"text_offset"` // in characters
			} `json:"logprobs"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return nil, err
	}
	if len(said.Choices) != 1 {
		return nil, fmt.Errorf("found %d answers to a text, want 1", len(said.Choices))
	}
	l := &said.Choices[0].Logprobs
	out := textScore{Object: "score", Model: said.Model, Greedy: true}
	start, begins := utf8.RuneCountInString(p.Context), -1
	for i, value := range l.Values {
		last := i+1 == len(l.Values)
		if value == nil || l.Offset[i] < start && !last && l.Offset[i+1] <= start {
			continue
		}
		if begins < 0 {
			begins = l.Offset[i]
		}
		out.Tokens++
		out.LogProb += *value
		for _, other := range l.Top[i] {
			out.Greedy = out.Greedy && other <= *value
		}
		if p.Logprobs {
			out.Logprobs = append(out.Logprobs, tokenScore{l.Tokens[i], *value})
		}
	}
	if begins >= 0 {
		out.Bytes = bytesFrom(p.Context+*p.Text, begins)
		loss := -out.LogProb / float64(out.Tokens)
		perplexity, bits := math.Exp(loss), -out.LogProb/math.Ln2/float64(max(1, out.Bytes))
		out.Loss, out.BitsPerByte = &loss, &bits
		if !math.IsInf(perplexity, 0) {
			out.Perplexity = &perplexity
		}
	}
	return json.Marshal(out)
}

// bytesFrom returns the number of bytes of a text starting at a character.
func bytesFrom(text string, char int) int {
	for i := range text {
		if char == 0 {
			return len(text) - i
		}
		char--
	}
	return 0
}

// scored returns a result with the score of the item's text instead of the response, if the item has a text.
func (it *item) scored(out result) result {
	if it.text == nil || !out.good() {
		return out
	}
	body, err := it.text.score(out.Response.Body)
	if err != nil {
		return result{ID: out.ID, CustomID: out.CustomID, Error: &fault{"invalid_response", err.Error()}}
	}
	out.Response = &response{http.StatusOK, out.ID, body}
	return out
}
