package serve

import (
	"encoding/json"
)

// failOllama writes an error as Ollama does.
func failOllama(c *call, e *Error) {
	body, err := json.Marshal(map[string]string{"error": e.short()})
	if err != nil {
		return // it is a text
	}
	c.send(e.Status, "application/json", append(body, '\n')) // where it fails the client has gone
}
