package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/serve/sessions"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// library measures conversations about a text of about n tokens, which was read once, and about one that is sent.
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
			stored, err := answerOf[sessions.Text](cached.put(ctx, "/v1/library/handbook", map[string]any{"text": text}))
			if err != nil {
				return err
			}
			took := time.Since(begun)
			states, err := answerOf[struct{ Data []sessions.State }](cached.send(ctx, http.MethodGet, "/v1/states", nil))
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
				{"state_mb", rounded(float64(states.Data[0].Bytes) / 1e6)}, {"text_mb", rounded(float64(len(text)) / 1e6)}}
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
			return b.String() // not reached: it takes every byte
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

// timed is ask, and how long it took in milliseconds.
func (s *site) timed(ctx context.Context, body map[string]any) (agentAnswer, float64, error) {
	begun := time.Now()
	a, err := s.ask(ctx, body)
	return a, time.Since(begun).Seconds() * 1e3, err
}

// answerOf reads a response.
func answerOf[T any](r *http.Response, err error) (answer T, _ error) {
	if err != nil {
		return answer, err
	}
	err = json.NewDecoder(r.Body).Decode(&answer)
	return answer, errors.Join(err, r.Body.Close())
}

// move measures how a state after n tokens goes to another server.
func (v served) move(n int) Case {
	const more = 16
	return Case{ID: v.id("move", n), prepare: func(ctx context.Context) (trial, error) {
		from, err := v.site(ctx, 0)
		if err != nil {
			return trial{}, err
		}
		to, err := newSite(ctx, from.net, 0)
		if err != nil {
			from.close()
			return trial{}, err
		}
		var row Row
		run := func() error {
			ids := randomIDs(rand.New(rand.NewPCG(7, 7)), n, from.net.Config.VocabSize)
			at := time.Now()
			lap := func() float64 {
				took := time.Since(at)
				at = time.Now()
				return milliseconds(took)
			}
			s, err := answerOf[sessions.Session](from.post(ctx, "/v1/sessions", map[string]any{"ids": ids}))
			if err != nil {
				return err
			}
			read := lap()
			state, err := answerOf[sessions.State](from.post(ctx, "/v1/states", map[string]any{"session": s.ID}))
			if err != nil {
				return err
			}
			times := []float64{lap()}
			r, err := from.send(ctx, http.MethodGet, "/v1/states/"+state.ID, nil)
			if err != nil {
				return err
			}
			file, err := io.ReadAll(r.Body)
			if err = errors.Join(err, r.Body.Close()); err != nil {
				return err
			}
			times = append(times, lap())
			if _, err = answerOf[sessions.State](to.send(ctx, http.MethodPut, "/v1/states/"+state.ID, file)); err != nil {
				return err
			}
			times = append(times, lap())
			moved, err := answerOf[sessions.Session](to.post(ctx, "/v1/sessions", map[string]any{"state": state.ID}))
			if err != nil {
				return err
			}
			times = append(times, lap())
			var replies [2]sessions.Reply
			for i, one := range []struct {
				*site
				id string
			}{{from, s.ID}, {to, moved.ID}} {
				q := map[string]any{"max_tokens": more, "logprobs": true, "ignore_eos": true, "seed": 1}
				replies[i], err = answerOf[sessions.Reply](one.post(ctx, "/v1/sessions/"+one.id+"/generate", q))
				if err != nil {
					return err
				}
			}
			if len(replies[0].IDs) != more || len(replies[1].IDs) != more {
				return fmt.Errorf("found replies of %d and %d tokens, want %d", len(replies[0].IDs), len(replies[1].IDs),
					more)
			}
			mismatches := 0.0
			for i := range more {
				if replies[0].IDs[i] != replies[1].IDs[i] || replies[0].Logprobs[i] != replies[1].Logprobs[i] {
					mismatches++
				}
			}
			move := 0.0
			for _, ms := range times {
				move += ms
			}
			row = slices.Concat(Row{{"read_ms", read}, {"state_mb", rounded(float64(len(file)) / 1e6)}},
				Row{{"state_ms", times[0]}, {"get_ms", times[1]}, {"put_ms", times[2]}, {"open_ms", times[3]}},
				Row{{"move_ms", rounded(move)}, {"mismatches", mismatches}})
			return nil
		}
		return trial{long: true, runs: []func() error{run}, close: func() { from.close(); to.close() },
			fields: func([]Timing) Row { return row }}, nil
	}}
}
