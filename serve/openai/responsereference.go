package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/hippo-ssm/hippo/serve/request"
)

// The id of an item contains the id of its response, so that the item can be found. It consists of the prefix of the
// item's type, the response's digits, and the item's index in the input or the output.

// idPrefixes are the prefixes of item ids.
var idPrefixes = map[string]string{
	itemMessage: "msg_", itemReasoning: "rs_", itemCall: "fc_", itemOutput: "fco_", itemCustom: "ctc_",
	itemAnswer: "ctco_", itemCompaction: "cmp_",
}

// Separators before the index of an item in its id.
const (
	inputMark  = "_"
	outputMark = "_o"
)

// itemID returns the id of an item of the given type.
func itemID(kind, response, mark string, at int) string {
	return fmt.Sprint(idPrefixes[kind], strings.TrimPrefix(response, responsePrefix), mark, at)
}

// responseOf returns the id of the response that the id of an item contains.
func responseOf(item string) string {
	_, rest, _ := strings.Cut(item, "_")
	digits, _, _ := strings.Cut(rest, "_")
	return responsePrefix + digits
}

// refers reports whether an item is only a reference to another one.
func (item *inputFields) refers() bool {
	return item.Type == itemReference || item.Type == "" && item.Role == "" && item.Content == nil && item.ID != ""
}

// maxReferred is the maximum number of responses that a request may refer to, since each is read.
const maxReferred = 100

// references resolves the references in a field: to items of the client's stored responses, and to compactions.
type references struct {
	*Responses
	c     *request.Call
	param string
	known map[string][]responseItem // by id of the response

	expanded bool // a compaction was expanded: each may stand for much more than its bytes
}

func (s *Responses) references(c *request.Call, param string) *references {
	return &references{Responses: s, c: c, param: param, known: map[string][]responseItem{}}
}

// item returns the item with an id. at is the index of the reference.
func (s *references) item(at int, id string) (found inputFields, err error) {
	of := responseOf(id)
	items, ok := s.known[of]
	if !ok {
		if len(s.known) == maxReferred {
			return found, request.Invalid(s.param,
				"%d: found references to items of more than %d responses, want at most so many", at, maxReferred)
		}
		r, err := s.response(s.c, of)
		if err != nil && request.ErrorOf(err).Status != http.StatusNotFound {
			return found, err
		}
		if err == nil {
			items = append(r.inputItems(), r.Response.Output...)
		}
		s.known[of] = items
	}
	for _, item := range items {
		if item.ID == id {
			return item.fields()
		}
	}
	return found, request.Invalid(s.param,
		"%d: id: found %.80q, which is no item of a response that this server keeps for this client", at, id)
}

// fields returns a stored item in the form that clients send.
func (item *responseItem) fields() (f inputFields, err error) {
	data, err := json.Marshal(item)
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	return f, err
}
