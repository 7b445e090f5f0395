package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Strings is a string or a list of strings.
type Strings []string

func (t *Strings) UnmarshalJSON(data []byte) error {
	if IsText(data) {
		*t = Strings{""}
		return json.Unmarshal(data, &(*t)[0])
	}
	return UnmarshalList(data, (*[]string)(t), "a string or a list of strings")
}

// Prompts holds one prompt or a list of prompts, each a text or a list of ids.
type Prompts []Prompt

// Prompt is a text, or ids if they are not nil.
type Prompt struct {
	Text string
	IDs  []int32
}

const PromptForms = "a string, a list of strings, a list of token ids, or a list of lists of token ids"

func (p *Prompts) UnmarshalJSON(data []byte) error {
	*p = nil
	if IsText(data) {
		*p = Prompts{{}}
		return json.Unmarshal(data, &(*p)[0].Text)
	}
	if first := firstOf(data); first != '"' && first != '[' && first != ']' { // ids, or invalid
		*p = Prompts{{}}
		return readIDs(data, &(*p)[0].IDs, PromptForms)
	}
	if n := items(data); n > maxItems {
		return fmt.Errorf("found a list of %d, want at most %d", n, maxItems)
	}
	var items []json.RawMessage
	if err := UnmarshalList(data, &items, PromptForms); err != nil {
		return err
	}
	for _, item := range items {
		one := Prompt{}
		var err error
		if IsText(item) {
			err = json.Unmarshal(item, &one.Text)
		} else {
			one.IDs = []int32{}
			err = readIDs(item, &one.IDs, PromptForms)
		}
		if err != nil {
			return err
		}
		*p = append(*p, one)
	}
	return nil
}

func IsText(data []byte) bool { return bytes.HasPrefix(data, []byte{'"'}) }

// readIDs reads a list of ids. want describes the expected value for errors. A prompt of ids may be long, so a list of
// only digits, commas and spaces, as clients write it, is read in one pass.
func readIDs(data []byte, to *[]int32, want string) error {
	ids := make([]int32, 0, bytes.Count(data, []byte{','})+1)
	for rest := data; bytes.HasPrefix(data, []byte{'['}) && len(rest) > 0; {
		rest = bytes.TrimLeft(rest[1:], " ") // after a bracket or a comma
		id, n := int32(0), 0
		for ; n < len(rest) && rest[n] >= '0' && rest[n] <= '9'; n++ {
			if n == 9 || n == 1 && id == 0 { // perhaps too large, or a leading zero
				return UnmarshalList(data, to, want)
			}
			id = 10*id + int32(rest[n]-'0')
		}
		rest = bytes.TrimLeft(rest[n:], " ")
		if ids = append(ids, id); n == 0 || len(rest) == 0 || rest[0] != ',' && string(rest) != "]" {
			break
		}
		if rest[0] == ']' {
			*to = ids
			return nil
		}
	}
	return UnmarshalList(data, to, want)
}

// UnmarshalList reads a list. want describes the expected value for errors.
func UnmarshalList[T any](data []byte, to *[]T, want string) error {
	if json.Unmarshal(data, to) != nil {
		return errors.New("found " + Shorten(data) + ", want " + want)
	}
	return nil
}
