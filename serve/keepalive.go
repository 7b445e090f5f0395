package serve

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// keepAlive is Ollama's keep_alive: how long a model stays loaded that nobody uses, in seconds or as 5m. 0 is not at
// all, and less than that for ever.
type keepAlive struct {
	said bool
	d    time.Duration
}

// UnmarshalJSON reads a number of seconds or a text.
func (k *keepAlive) UnmarshalJSON(data []byte) error {
	text := string(data)
	if isText(data) {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	var err error
	k.d, err = ParseKeepAlive(text)
	k.said = err == nil
	return err
}

// ParseKeepAlive reads a time to keep a model: seconds, or a duration such as 5m; less than 0 is for ever.
func ParseKeepAlive(text string) (time.Duration, error) {
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("found %s, want seconds or a duration such as 5m, -1 for ever", shorten([]byte(text)))
		}
		return d, nil
	}
	const most = 100 * 365 * 24 * time.Hour // what is more, or no number, is for ever
	if seconds >= 0 && seconds < most.Seconds() {
		return time.Duration(seconds * float64(time.Second)), nil
	}
	return -1, nil
}

// keep does as a request says with the models that it uses.
func (s *Server) keep(c *call, k keepAlive) {
	for _, e := range c.held {
		if k.said {
			s.models.keep(e, k.d)
		}
	}
}

// What ends an answer to a request that asked for no text.
const (
	endLoad   = "load"
	endUnload = "unload"
)

// unloads tells whether a request asks for nothing but that the model goes.
func (q *ollamaReply) unloads() bool {
	asks := q.Prompt != "" && !q.chats || len(q.Messages) > 0 && q.chats
	return !asks && q.Keep.said && q.Keep.d == 0
}
