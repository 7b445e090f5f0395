package openai

import (
	"encoding/json"

	"github.com/hippo-ssm/hippo/serve/request"
)

// Fail writes an error as OpenAI does.
func Fail(c *request.Call, e *request.Error) {
	body, err := json.Marshal(e)
	if err != nil {
		return // strings can be encoded
	}
	c.Send(e.Status, "application/json", append(body, '\n')) // fails if the client has disconnected
}
