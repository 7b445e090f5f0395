package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/model"
)

// serveCases measure package serve through its HTTP API on this machine, with weights in int8:
//
//   - clients: clients that stream replies concurrently. tokens_per_s is of all clients together.
//     scheduler_tokens_per_s is the speed of a scheduler that samples the same replies without HTTP, JSON and SSE,
//     measured in turn. overhead_share is how much longer a token takes, as the median of nine or more times. By CPU
//     time, which other processes disturb less, overhead_cpu_share is how much more a token takes, including the
//     clients' part, and server_cpu_share is the same without that part: client_cpu_us, the time that the clients take
//     to receive the same events from a server that has them ready.
//   - pauses: 64 clients that stream while prompts of 8,192 tokens arrive one after another. p50_ms and p99_ms are the
//     times from one token of a client to its next.
//   - turn: a turn after 30,000 stored tokens, some time after the previous one. first_ms is the time to the first
//     token of the text without its last ids. turn_ms is the time of one more turn of 16 ids whose text is sent whole,
//     response_ms that of a turn that continues a stored response that has ended, and short_ms that of 8 ids, all
//     medians. The first of these reads everything after the last multiple of the chunk again, the second only the new
//     ids: turn_read and response_read count them.
//   - choices: questions about a context with 4 endings, scored as evaluation harnesses do, and by a server that keeps
//     nothing and reads the context with each ending; measured in turn, by wall time and by CPU time, which other
//     processes disturb less.
//   - agents: transcripts of coding agents, with calls, edits, branches and changes of the date. mismatches is the
//     number of replies that differ in a bit of a log-probability from those of a server that reads everything from the
//     start. tokens is the number of tokens in all prompts and replies. cached_share is the share of the prompts that
//     was cached, new_share the share that neither the clients nor the server had sent before, and read_again the
//     number of tokens per request that were read although they had been sent. With part=2/8, every eighth agent from
//     the second on is measured; with limit=5m, as much as can be sent and compared in that time; and with agents=32,
//     that many agents instead of 16.
//   - library: a text that was read once into a library and is mounted into conversations. read_ms is the time to read
//     it, mount_ms the time to the first token of a conversation with the text mounted, mount_read the number of tokens
//     read for it, and again_ms the time on a server that keeps nothing and is sent the text. mismatches is the number
//     of conversations whose replies differ in a bit of a log-probability. state_mb is the size of the state's file,
//     and text_mb that of the text.
//   - move: a state after some tokens is transferred to another server. state_ms is the time to store it as a file,
//     get_ms and put_ms the times to send it from one server to a client and from there to the other, open_ms the time
//     to begin a session from it there, and move_ms the time of all of that. move_cpu_ms is its CPU time, including the
//     client's part. mismatches is the number of log-probabilities after it that differ in a bit from the first
//     server's.
//   - chunk: a prompt that is read in pieces of the model's chunk, and in pieces of 64, 128 and 256. cost_64 is how
//     many times as long pieces of 64 take. A shorter chunk leaves less to read again after an edit.
//   - streams: open streams of a small model. kb_each is the memory of each in the process, including the client;
//     left_mb is the memory still in use after all are closed.
//
// Arguments choose measures, and presets in place of the two models: "turn qwen3.5-0.8b".
func serveCases(args []string, shrink int) ([]Case, error) {
	of := transcripts{agents: max(2, 16/shrink), requests: max(8, 24/shrink), part: 1, parts: 1}
	measures := map[string]func(served) []Case{
		"clients": func(v served) []Case {
			return []Case{v.clients(1, 256/shrink, 9/shrink), v.clients(64, 256/shrink, 9/shrink)}
		},
		"pauses":  func(v served) []Case { return []Case{v.pauses(8192/shrink, 64)} },
		"turn":    func(v served) []Case { return []Case{v.turn(30000 / shrink)} },
		"choices": func(v served) []Case { return []Case{v.choices(512/shrink, 16)} },
		"agents":  func(v served) []Case { return []Case{v.agents(of)} },
		"library": func(v served) []Case { return []Case{v.library(10_000 / shrink)} },
		"move":    func(v served) []Case { return []Case{v.move(100_000 / shrink)} },
		"chunk":   func(v served) []Case { return []Case{v.chunk(2048 / shrink)} },
	}
	order := []string{"clients", "pauses", "turn", "choices", "agents", "library", "move", "chunk", "streams"}
	models, others := servedModels(args, shrink)
	var chosen []string
	for _, what := range others {
		if isSetting(what) {
			if err := of.setting(what); err != nil {
				return nil, err
			}
			continue
		}
		chosen = append(chosen, what)
	}
	for _, what := range chosen {
		if !slices.Contains(order, what) {
			return nil, fmt.Errorf("found %q, want some of %s, and presets", what, strings.Join(order, ", "))
		}
	}
	var cases []Case
	for _, what := range order {
		switch {
		case len(chosen) > 0 && !slices.Contains(chosen, what):
		case what == "streams":
			small := served{"small", shape{d: 64, layers: 2, vocab: 256}.build}
			cases = append(cases, small.streams(2000/shrink))
		default:
			for _, m := range models {
				cases = append(cases, measures[what](m)...)
			}
		}
	}
	return cases, nil
}

// served is a model to serve.
type served struct {
	name  string
	build func() (*model.Model, error)
}

// servedModels returns the presets among the arguments, or H3-125M, a hybrid, and Mamba-130M, and the other arguments.
func servedModels(args []string, shrink int) (models []served, others []string) {
	for _, arg := range args {
		if slices.Contains(model.Presets(), arg) {
			models = append(models, served{arg, preset(arg, shrink)})
		} else {
			others = append(others, arg)
		}
	}
	if len(models) == 0 {
		h3, _ := hybridAndGPT(shrink)
		models = []served{{"H3-hybrid", h3.build}, {"Mamba-130M", preset("mamba-130m", shrink)}}
	}
	return models, others
}

// id returns the identifying fields of a case of a model.
func (v served) id(what string, n int) Row {
	return Row{{"bench", "serve"}, {"measure", what}, {"model", v.name}, {"precision", engine.Int8.String()},
		{"n", float64(n)}}
}

// site builds the model and starts to serve it, as newSite does.
func (v served) site(ctx context.Context, memory int64) (*site, error) {
	m, err := packed(v.build, engine.Int8)
	if err != nil {
		return nil, err
	}
	return newSite(ctx, m, memory)
}

// clients measures n clients, with at least the given number of repetitions.
func (v served) clients(n, past, repeats int) Case {
	const tokens = 32
	id := append(v.id("clients", n), Field{"context", float64(past)})
	return Case{ID: id, prepare: func(ctx context.Context) (trial, error) {
		// Prompts are cached, so that the server does what the scheduler does.
		s, err := v.site(ctx, 1<<30)
		if err != nil {
			return trial{}, err
		}
		prompts := make([][]int32, n)
		for i := range prompts {
			prompts[i] = randomIDs(rand.New(rand.NewPCG(1, uint64(i))), past, s.net.Config.VocabSize)
		}
		sessions := make([]*generate.Batch, n)
		for i, ids := range prompts {
			sessions[i] = generate.NewBatch(s.net, 1)
			if err := sessions[i].Feed(ctx, ids); err != nil {
				return trial{}, err
			}
		}
		ready, err := newCanned(ctx, n, tokens)
		if err != nil {
			s.close()
			return trial{}, err
		}
		over := func(s *site) func() error {
			return func() error {
				return inParallel(n, func(i int) error {
					return s.stream(ctx, request{Prompt: prompts[i], Tokens: tokens, Seed: i}, func() {})
				})
			}
		}
		alone := serving(s.net, sessions, tokens, sample.Options{Temperature: 1})
		return trial{
			runs: []func() error{over(s), alone, over(&ready.site)}, repeats: repeats,
			close: func() { s.close(); ready.close() },
			fields: func(t []Timing) Row {
				http, alone := float64(n*tokens)/t[0].Wall, float64(n*tokens)/t[1].Wall
				each := float64(runtime.GOMAXPROCS(0)) / float64(n*tokens) // seconds per token, for all threads
				cpu, clients := t[0].CPU*each, t[2].CPU*each
				core := t[1].CPU * each
				return Row{{"tokens_per_s", rounded(http)}, {"scheduler_tokens_per_s", rounded(alone)},
					{"overhead_share", rounded(t[0].times(t[1]) - 1)}, {"overhead_cpu_share", rounded(cpu/core - 1)},
					{"server_cpu_share", rounded((cpu-clients)/core - 1)}, {"cpu_us", rounded(cpu * 1e6)},
					{"scheduler_cpu_us", rounded(core * 1e6)}, {"client_cpu_us", rounded(clients * 1e6)}}
			},
		}, nil
	}}
}

// pauses measures the time from token to token of n clients while prompts arrive.
func (v served) pauses(prompt, n int) Case {
	const tokens = 48
	id := append(v.id("pauses", n), Field{"prompt", float64(prompt)})
	return Case{ID: id, prepare: func(ctx context.Context) (trial, error) {
		s, err := v.site(ctx, 0)
		if err != nil {
			return trial{}, err
		}
		var gaps [][]float64
		prompts := 0
		run := func() error {
			gaps, prompts = make([][]float64, n), 0
			until, stop := context.WithCancel(ctx)
			defer stop()
			arrived := make(chan error, 1)
			go func() {
				rng := rand.New(rand.NewPCG(2, 2))
				for until.Err() == nil {
					ids := randomIDs(rng, prompt, s.net.Config.VocabSize)
					if err := s.whole(until, request{Prompt: ids, Tokens: 1}); err != nil && until.Err() == nil {
						arrived <- err
						return
					}
					prompts++
				}
				arrived <- nil
			}()
			err := inParallel(n, func(i int) error {
				var last time.Time
				q := request{Prompt: []int32{int32(i) % int32(s.net.Config.VocabSize)}, Tokens: tokens, Seed: i}
				return s.stream(ctx, q, func() {
					now := time.Now()
					if !last.IsZero() {
						gaps[i] = append(gaps[i], now.Sub(last).Seconds()*1e3)
					}
					last = now
				})
			})
			stop()
			return errors.Join(err, <-arrived)
		}
		return trial{long: true, runs: []func() error{run}, close: s.close, fields: func([]Timing) Row {
			var all []float64
			for _, g := range gaps {
				all = append(all, g...)
			}
			half, most := quantile(all, 0.5), quantile(all, 0.99)
			return Row{{"p50_ms", rounded(half)}, {"p99_ms", rounded(most)}, {"p99_over_p50", rounded(most / half)},
				{"prompts", float64(prompts)}}
		}}, nil
	}}
}

// turn measures the time to the first token after a stored text.
func (v served) turn(n int) Case {
	const turns, more, few, pause = 9, 16, 8, 200 * time.Millisecond
	return Case{ID: v.id("turn", n), prepare: func(ctx context.Context) (trial, error) {
		s, err := v.site(ctx, 4<<30)
		if err != nil {
			return trial{}, err
		}
		var first float64
		var later, responses, short, laterRead, responsesRead []float64
		run := func() error {
			rng := rand.New(rand.NewPCG(3, 3))
			ids := randomIDs(rng, n, s.net.Config.VocabSize)
			later, responses, short, laterRead, responsesRead = nil, nil, nil, nil, nil
			for i := range turns + 1 {
				time.Sleep(pause)
				begun, read := time.Now(), s.reads()
				if err := s.whole(ctx, request{Prompt: ids, Tokens: 1, Ignore: true}); err != nil {
					return err
				}
				if took := time.Since(begun).Seconds() * 1e3; i == 0 {
					first = took
				} else {
					later, laterRead = append(later, took), append(laterRead, s.reads()-read)
				}
				ids = append(ids, randomIDs(rng, more, s.net.Config.VocabSize)...)
			}
			s.endAtOnce()
			previous, err := s.respond(ctx, ids, "")
			respond := func(ids int) (ms float64) {
				time.Sleep(pause)
				begun := time.Now()
				previous, err = s.respond(ctx, randomIDs(rng, ids, s.net.Config.VocabSize), previous)
				return time.Since(begun).Seconds() * 1e3
			}
			for i := 0; i < turns && err == nil; i++ {
				read := s.reads()
				responses = append(responses, respond(more))
				responsesRead = append(responsesRead, s.reads()-read)
			}
			for i := 0; i < turns && err == nil; i++ {
				short = append(short, respond(few))
			}
			return err
		}
		return trial{long: true, runs: []func() error{run}, close: s.close, fields: func([]Timing) Row {
			return Row{{"first_ms", rounded(first)}, {"turn_ms", rounded(quantile(later, 0.5))},
				{"slowest_turn_ms", rounded(quantile(later, 1))}, {"response_ms", rounded(quantile(responses, 0.5))},
				{"short_ms", rounded(quantile(short, 0.5))}, {"turn_read", quantile(laterRead, 0.5)},
				{"response_read", quantile(responsesRead, 0.5)}}
		}}, nil
	}}
}

// choices measures questions with four endings of the given number of ids.
func (v served) choices(past, ending int) Case {
	const endings, questions = 4, 4
	id := append(v.id("choices", endings), Field{"context", float64(past)}, Field{"ending", float64(ending)})
	return Case{ID: id, prepare: func(ctx context.Context) (trial, error) {
		cached, err := v.site(ctx, 1<<30)
		if err != nil {
			return trial{}, err
		}
		uncached, err := newSite(ctx, cached.net, 0)
		if err != nil {
			cached.close()
			return trial{}, err
		}
		rng := rand.New(rand.NewPCG(4, 4)) // no question is asked twice
		ask := func(s *site) func() error {
			return func() error {
				for range questions {
					before := randomIDs(rng, past, cached.net.Config.VocabSize)
					prompts := make([][]int32, endings)
					for i := range prompts {
						prompts[i] = append(before[:past:past], randomIDs(rng, ending, cached.net.Config.VocabSize)...)
					}
					q := request{Prompt: prompts, Tokens: 1, Echo: true, Logprobs: new(int)}
					if err := s.whole(ctx, q); err != nil {
						return err
					}
				}
				return nil
			}
		}
		return trial{
			runs: []func() error{ask(cached), ask(uncached)}, close: func() { cached.close(); uncached.close() },
			fields: func(t []Timing) Row {
				once, each := questions/t[0].Wall, questions/t[1].Wall
				return Row{{"questions_per_s", rounded(once)}, {"rereading_questions_per_s", rounded(each)},
					{"times_faster", rounded(once / each)},
					{"times_less_cpu", rounded(t[1].CPU / t[0].CPU)}}
			},
		}, nil
	}}
}

// streams measures the memory of n open streams.
func (v served) streams(n int) Case {
	return Case{ID: v.id("streams", n), prepare: func(ctx context.Context) (trial, error) {
		s, err := v.site(ctx, 0)
		if err != nil {
			return trial{}, err
		}
		var open, left float64
		run := func() error {
			if err := s.stream(ctx, request{Prompt: []int32{1}, Tokens: 2}, func() {}); err != nil { // warm
				return err
			}
			before := used()
			until, stop := context.WithCancel(ctx)
			defer stop()
			var all, begun sync.WaitGroup
			var once sync.Once
			var failed error
			for i := range n {
				begun.Add(1)
				all.Go(func() {
					began := sync.OnceFunc(begun.Done)
					defer began()
					err := s.stream(until, request{Prompt: []int32{1}, Tokens: 1 << 13, Seed: i}, began)
					if until.Err() == nil && err != nil {
						once.Do(func() { failed = err })
					}
				})
			}
			begun.Wait()
			open = used() - before
			stop()
			all.Wait()
			s.client.CloseIdleConnections()
			for range 100 { // until the server has noticed that they closed
				if s.scheduler.Stats().Clients == 0 {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			left = used() - before
			return failed
		}
		return trial{long: true, runs: []func() error{run}, close: s.close, fields: func([]Timing) Row {
			return Row{{"kb_each", rounded(open / float64(n) / 1e3)}, {"left_mb", rounded(left / 1e6)}}
		}}, nil
	}}
}

// used returns the number of bytes of the heap and of stacks in use.
func used() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the second collection empties pools
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
