package ollama

import (
	"encoding/json"
	"time"

	"github.com/hippo-ssm/hippo/serve/host"
	"github.com/hippo-ssm/hippo/serve/request"
)

// keepAlive is Ollama's keep_alive: how long an idle model stays loaded, in seconds or as 5m. 0 is not at all, less is
// forever.
type keepAlive struct {
	said bool
	d    time.Duration
}

// UnmarshalJSON reads a number of seconds or a text.
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

// apply sets how long a model stays loaded, if the request says so.
func (k keepAlive) apply(to *host.Host, m *host.Model) {
	if k.said {
		to.SetKeepAlive(m, k.d)
	}
}

// Reasons why a response without a text ends.
const (
	endLoad   = "load"
	endUnload = "unload"
)

// unloads reports whether a request only unloads the model.
func (q *chatJob) unloads() bool {
	asks := q.Prompt != "" && !q.chats || len(q.Messages) > 0 && q.chats
	return !asks && q.Keep.said && q.Keep.d == 0
}
