package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/hippo-ssm/hippo/serve/request"
)

// The id of an item contains its response's id, so that the item can be found: the prefix of its type, the response's
// digits, and its index in the input or the output.

// idPrefixes are the prefixes of item ids.
var idPrefixes = map[string]string{itemMessage: "msg_", itemReasoning: "rs_", itemCall: "fc_", itemOutput: "fco_"}

// Separators before the index of an item in its id.
const (
	inputMark  = "_"
	outputMark = "_o"
)

// itemID returns the id of an item of a type.
func itemID(kind, response, mark string, at int) string {
	return fmt.Sprint(idPrefixes[kind], strings.TrimPrefix(response, responsePrefix), mark, at)
}

// responseOf returns the id of the response in the id of an item, or "".
func responseOf(item string) string {
	_, rest, _ := strings.Cut(item, "_")
	digits, _, _ := strings.Cut(rest, "_")
	return responsePrefix + digits
}

// refers reports whether an item is only a reference to another.
func (item *inputFields) refers() bool {
	return item.Type == itemReference || item.Type == "" && item.Role == "" && item.Content == nil && item.ID != ""
}

// maxReferred is the maximum number of responses that a request may refer to: each is read.
const maxReferred = 100

// references returns a function that finds the referenced items of the client's stored responses.
func (s *Responses) references(c *request.Call) func(at int, id string) (inputFields, error) {
	known := map[string][]responseItem{} // by id of the response
	return func(at int, id string) (found inputFields, err error) {
		of := responseOf(id)
		items, ok := known[of]
		if !ok {
			if len(known) == maxReferred {
				return found,
					request.Invalid("input", "%d: found references to items of more than %d responses, want at most "+
						"so many", at, maxReferred)
			}
			r, err := s.response(c, of)
			if err != nil && request.ErrorOf(err).Status != http.StatusNotFound {
				return found, err
			}
			if err == nil {
				items = append(r.inputItems(), r.Response.Output...)
			}
			known[of] = items
		}
		for _, item := range items {
			if item.ID != id {
				continue
			}
			data, err := json.Marshal(item)
			if err == nil {
				err = json.Unmarshal(data, &found)
			}
			return found, err
		}
		return found,
			request.Invalid("input", "%d: id: found %.80q, which is no item of a response that this server keeps for "+
				"this client", at, id)
	}
}
