package ollama

import (
	"encoding/json"
	"time"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
)

// keepAlive is Ollama's keep_alive, the time for which an idle model stays loaded: a number of seconds, or a duration
// such as 5m. 0 unloads the model at once, negative values keep it forever.
type keepAlive struct {
	said bool
	d    time.Duration
}

// Schema returns the schema of a number of seconds or a duration.
func (*keepAlive) Schema() request.Schema {
	return request.AnyOf(request.Schema{"type": "number"}, request.TextSchema())
}

// UnmarshalJSON reads a number of seconds or a duration.
func (k *keepAlive) UnmarshalJSON(data []byte) error {
	text := string(data)
	if request.IsText(data) {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	var err error
	k.d, err = host.ParseKeepAlive(text)
	k.said = err == nil
	return err
}

// apply sets how long a model stays loaded, if the request has the field and its client is an admin. The field is
// ignored for other clients, since they share the model.
func (k keepAlive) apply(c *request.Call, to *host.Host, m *host.Model) {
	if k.said && c.Admin {
		to.SetKeepAlive(m, k.d)
	}
}

// Reasons for the end of a response without text.
const (
	endLoad   = "load"
	endUnload = "unload"
)

// unloads reports whether a request only unloads the model.
func (q *chatJob) unloads() bool {
	asks := q.Prompt != "" && !q.chats || len(q.Messages) > 0 && q.chats
	return !asks && q.Keep.said && q.Keep.d == 0
}
