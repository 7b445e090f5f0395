package serve

import (
	"encoding/json"
	"errors"
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
	k.said = true
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		if k.d, err = time.ParseDuration(text); err != nil {
			return errors.New("found " + shorten(data) + ", want seconds or a duration such as 5m, -1 for ever")
		}
		return nil
	}
	const most = 100 * 365 * 24 * time.Hour // what is more, or no number, is for ever
	k.d = -1
	if seconds >= 0 && seconds < most.Seconds() {
		k.d = time.Duration(seconds * float64(time.Second))
	}
	return nil
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
