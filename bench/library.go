package bench

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/serve/sessions"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// library measures conversations about a text of about n tokens that was read once, and about one that is sent.
func (v served) library(n int) Case {
	const turns = 3
	return Case{ID: v.id("library", n), prepare: func(ctx context.Context) (trial, error) {
		cached, fresh, err := v.chatSites(ctx)
		if err != nil {
			return trial{}, err
		}
		var row Row
		run := func() error {
			a := agent{rng: rand.New(rand.NewPCG(6, 6))}
			text := a.text(n)
			begun := time.Now()
			q := map[string]any{"text": text}
			stored, err := answerOf[sessions.Text](cached.put(ctx, "/v1/library/handbook", q))
			if err != nil {
				return err
			}
			took := time.Since(begun)
			type list struct{ Data []sessions.State }
			states, err := answerOf[list](cached.send(ctx, http.MethodGet, "/v1/states", nil))
			if err != nil {
				return err
			}
			var mounts, agains, read []float64
			mismatches := 0.0
			for range turns {
				body := map[string]any{"max_tokens": 1, "logprobs": true, "top_logprobs": 3, "seed": 1}
				body["messages"] = []json.RawMessage{a.user()}
				body["mount"] = []string{"handbook"}
				mounted, ms, err := cached.timed(ctx, body)
				if err != nil {
					return err
				}
				mounts = append(mounts, ms)
				read = append(read, float64(mounted.Usage.Prompt-mounted.Usage.Details.Cached))
				delete(body, "mount")
				body["messages"] = append([]json.RawMessage{encoded(map[string]string{"role": "system",
					"content": text + "\n\n"})}, body["messages"].([]json.RawMessage)...)
				again, ms, err := fresh.timed(ctx, body)
				if err != nil {
					return err
				}
				if agains = append(agains, ms); !again.same(mounted) {
					mismatches++
				}
			}
			row = Row{{"tokens", float64(stored.Tokens)}, {"read_ms", milliseconds(took)},
				{"mount_ms", rounded(median(mounts))}, {"mount_read", median(read)},
				{"again_ms", rounded(median(agains))}, {"mismatches", mismatches},
				{"state_mb", rounded(float64(states.Data[0].Bytes) / 1e6)},
				{"text_mb", rounded(float64(len(text)) / 1e6)}}
			return nil
		}
		return trial{long: true, runs: []func() error{run}, close: func() { cached.close(); fresh.close() },
			fields: func([]Timing) Row { return row }}, nil
	}}
}

// text returns lines of code of about n tokens.
func (a *agent) text(n int) string {
	var b strings.Builder
	for tokens := 0; tokens < n; {
		line := a.lines(1)
		ids, err := tokenizer.GPT2().Encode(nil, []byte(line))
		if err != nil {
			return b.String() // never reached, as every byte can be encoded
		}
		b.WriteString(line)
		tokens += len(ids)
	}
	return b.String()
}

// put sends an object to an endpoint that stores it.
func (s *site) put(ctx context.Context, endpoint string, q any) (*http.Response, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	return s.send(ctx, http.MethodPut, endpoint, body)
}

// timed is ask, and also returns the time that it took in milliseconds.
func (s *site) timed(ctx context.Context, body map[string]any) (agentAnswer, float64, error) {
	begun := time.Now()
	a, err := s.ask(ctx, body)
	return a, time.Since(begun).Seconds() * 1e3, err
}

// answerOf decodes a response.
func answerOf[T any](r *http.Response, err error) (answer T, _ error) {
	if err != nil {
		return answer, err
	}
	err = json.NewDecoder(r.Body).Decode(&answer)
	return answer, errors.Join(err, r.Body.Close())
}
