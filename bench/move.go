package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/serve/sessions"
)

// move measures the transfer of a state after n tokens to another server.
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
			read, cpu := lap(), status.CPUTime()
			state, err := answerOf[sessions.State](from.post(ctx, "/v1/states", map[string]any{"session": s.ID}))
			if err != nil {
				return err
			}
			times := []float64{lap()}
			r, err := from.send(ctx, http.MethodGet, "/v1/states/"+state.ID, nil)
			if err != nil {
				return err
			}
			file := make([]byte, r.ContentLength)
			_, err = io.ReadFull(r.Body, file)
			if err = errors.Join(err, r.Body.Close()); err != nil {
				return err
			}
			times = append(times, lap())
			_, err = answerOf[sessions.State](to.send(ctx, http.MethodPut, "/v1/states/"+state.ID, file))
			if err != nil {
				return err
			}
			times = append(times, lap())
			moved, err := answerOf[sessions.Session](to.post(ctx, "/v1/sessions", map[string]any{"state": state.ID}))
			if err != nil {
				return err
			}
			times = append(times, lap())
			cpu = status.CPUTime() - cpu
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
			if a, b := len(replies[0].IDs), len(replies[1].IDs); a != more || b != more {
				return fmt.Errorf("found replies of %d and %d tokens, want %d", a, b, more)
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
				Row{{"move_ms", rounded(move)}, {"move_cpu_ms", milliseconds(cpu)}, {"mismatches", mismatches}})
			return nil
		}
		return trial{long: true, runs: []func() error{run}, close: func() { from.close(); to.close() },
			fields: func([]Timing) Row { return row }}, nil
	}}
}
