package serve

import "encoding/json"

// failOpenAI writes an error as OpenAI does.
func failOpenAI(c *call, e *Error) {
	body, err := json.Marshal(e)
	if err != nil {
		return // it consists of texts
	}
	c.send(e.Status, "application/json", append(body, '\n')) // where it fails the client has gone
}
