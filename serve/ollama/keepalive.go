package ollama

import (
	"encoding/json"
	"time"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
)

// keepAlive is Ollama's keep_alive: how long an idle model stays loaded, in seconds or as 5m. 0 unloads it at once,
// below 0 means forever.
type keepAlive struct {
	said bool
	d    time.Duration
}

// Schema is that of a number of seconds or a duration.
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

// apply sets how long a model stays loaded, if the request has the field. Others use the model, too: for a client that
// is no admin, it stays as long as the server says.
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
