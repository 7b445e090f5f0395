package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/hippo-ssm/hippo/serve/request"
)

// The id of an item has that of its response in it, so that the item can be found again: the prefix of its type, the
// response's digits, and its place in the input or in the output.

// idPrefixes are what the ids of items begin with.
var idPrefixes = map[string]string{itemMessage: "msg_", itemReasoning: "rs_", itemCall: "fc_", itemOutput: "fco_"}

// What stands before the place of an item in its id.
const (
	inputMark  = "_"
	outputMark = "_o"
)

// itemID is the id of an item of a type.
func itemID(kind, response, mark string, at int) string {
	return fmt.Sprint(idPrefixes[kind], strings.TrimPrefix(response, responsePrefix), mark, at)
}

// responseOf is the id of the response that the id of an item has in it, or of none.
func responseOf(item string) string {
	_, rest, _ := strings.Cut(item, "_")
	digits, _, _ := strings.Cut(rest, "_")
	return responsePrefix + digits
}

// refers reports whether an item is only a reference to another.
func (item *inputFields) refers() bool {
	return item.Type == itemReference || item.Type == "" && item.Role == "" && item.Content == nil && item.ID != ""
}

// maxReferred is of how many responses a request may have references to items: each is read.
const maxReferred = 100

// references returns what finds items of responses that the client of a call has left with the server, by their ids,
// for the items at places of an input.
func (s *Responses) references(c *request.Call) func(at int, id string) (inputFields, error) {
	known := map[string][]responseItem{} // of responses
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
