package bench

import (
	"context"
	_ "embed" // the agents' chat template
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// agentChat is a template in the form of Qwen3's: ChatML, with calls and results in tags.
//
//go:embed agent.jinja
var agentChat string

// agentTools are the functions of an agent. Their arguments are choices from lists, so that random weights end them,
// too.
var agentTools = json.RawMessage(`[
{"type":"function","function":{"name":"read_file","description":"Reads lines of a file.","parameters":{"type":"object",
"properties":{"path":{"enum":["main.go","row.go","row_test.go","README.md"]},"line":{"type":"integer","minimum":1,
"maximum":999}},"required":["path","line"],"additionalProperties":false}}},
{"type":"function","function":{"name":"run_tests","description":"Runs the tests of a package.","parameters":{"type":
"object","properties":{"package":{"enum":["./...","./row","./cmd"]},"race":{"type":"boolean"}},"required":["package"],
"additionalProperties":false}}}]`)

// exchange is a request of an agent and the answer to it.
type exchange struct {
	body   map[string]any
	new    int // tokens of the prompt that were new: neither sent nor written by the server before
	answer agentAnswer
}

// agentAnswer holds the parts of a response that must be the same with and without a cache.
type agentAnswer struct {
	Choices []struct {
		Message  json.RawMessage `json:"message"`
		Logprobs json.RawMessage `json:"logprobs"`
		Finish   string          `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

// agents measures transcripts on a server with a prompt cache, and then sends every request again to a server without
// one.
func (v served) agents(of transcripts) Case {
	numbers := of.numbers()
	id := v.id("agents", len(numbers))
	if of.parts > 1 {
		id = append(id, Field{"part", fmt.Sprintf("%d/%d", of.part, of.parts)})
	}
	return Case{ID: id, prepare: func(ctx context.Context) (trial, error) {
		cached, fresh, err := v.chatSites(ctx)
		if err != nil {
			return trial{}, err
		}
		var all [][]*exchange
		var compared []*exchange
		known := &knownChats{tok: tokenizer.GPT2(), prefixes: map[string]bool{}}
		known.template, err = template.Parse(agentChat)
		late := func() bool { return false } // reports whether half of the time is over
		first := func() error {
			all = make([][]*exchange, len(numbers))
			late = of.late()
			return inParallel(len(numbers), func(i int) (err error) {
				a := agent{site: cached, rng: rand.New(rand.NewPCG(5, uint64(numbers[i]))), known: known}
				all[i], err = a.run(ctx, of.requests, late)
				return err
			})
		}
		mismatches := 0.0
		again := func() error {
			compared, late = nil, of.late()
			for _, x := range inTurn(all) {
				if late() {
					break
				}
				got, err := fresh.ask(ctx, x.body)
				if err != nil {
					return err
				}
				if compared = append(compared, x); !got.same(x.answer) {
					mismatches++
				}
			}
			return nil
		}
		return trial{
			long: true, runs: []func() error{first, again}, close: func() { cached.close(); fresh.close() },
			fields: func(t []Timing) Row {
				var requests, prompts, hits, fresh, written float64
				for _, x := range compared {
					requests++
					prompts += float64(x.answer.Usage.Prompt)
					hits += float64(x.answer.Usage.Details.Cached)
					written += float64(x.answer.Usage.Completion)
					fresh += float64(x.new)
				}
				row := Row{{"requests", requests}, {"tokens", prompts + written}, {"mismatches", mismatches},
					{"cached_share", rounded(hits / prompts)}, {"new_share", rounded(fresh / prompts)},
					{"read_again", rounded((prompts - hits - fresh) / requests)}}
				if of.limit == 0 { // otherwise the two servers did not get the same requests
					row = append(row, Field{"times_less_cpu", rounded(t[1].CPU / t[0].CPU)})
				}
				return row
			},
		}, err
	}}
}

// chatSites serves the model over the vocabulary of GPT-2, with a prompt cache and without.
func (v served) chatSites(ctx context.Context) (cached, fresh *site, err error) {
	tok := tokenizer.GPT2()
	net, err := packed(func() (*model.Model, error) {
		m, err := v.build()
		if err != nil {
			return nil, err
		}
		c := m.Config
		c.VocabSize = tok.VocabSize()
		return initialized(c)
	}, engine.Int8)
	if err != nil {
		return nil, nil, err
	}
	if cached, err = newChatSite(ctx, net, 4<<30, tok, agentChat); err != nil {
		return nil, nil, err
	}
	if fresh, err = newChatSite(ctx, net, 0, tok, agentChat); err != nil {
		cached.close()
	}
	return cached, fresh, err
}

// same reports whether message, log-probabilities and end are the same, except for the ids of calls, which are random.
func (a agentAnswer) same(b agentAnswer) bool {
	if len(a.Choices) != 1 || len(b.Choices) != 1 || a.Usage.Prompt != b.Usage.Prompt {
		return false
	}
	x, y := a.Choices[0], b.Choices[0]
	return x.Finish == y.Finish && string(x.Logprobs) == string(y.Logprobs) &&
		string(withoutIDs(x.Message)) == string(withoutIDs(y.Message))
}

// withoutIDs returns a message without the ids of its calls.
func withoutIDs(message json.RawMessage) json.RawMessage {
	var m map[string]any
	if err := json.Unmarshal(message, &m); err != nil {
		return message
	}
	calls, _ := m["tool_calls"].([]any)
	for _, c := range calls {
		if c, ok := c.(map[string]any); ok {
			delete(c, "id")
		}
	}
	out, err := json.Marshal(m)
	if err != nil {
		return message
	}
	return out
}

// ask sends a chat request.
func (s *site) ask(ctx context.Context, body map[string]any) (answer agentAnswer, err error) {
	a, err := s.post(ctx, "/v1/chat/completions", body)
	if err != nil {
		return answer, err
	}
	data, err := io.ReadAll(a.Body)
	if err = errors.Join(err, a.Body.Close()); err == nil {
		err = json.Unmarshal(data, &answer)
	}
	if err == nil && len(answer.Choices) != 1 {
		err = fmt.Errorf("found %.200q, want one reply", data)
	}
	return answer, err
}

// agent is one conversation.
type agent struct {
	site     *site
	rng      *rand.Rand
	known    *knownChats
	day      int
	messages []json.RawMessage
}

// run sends requests until late returns true, and returns them with their answers.
func (a *agent) run(ctx context.Context, requests int, late func() bool) (all []*exchange, err error) {
	a.day = 1 + a.rng.IntN(2)
	a.messages = []json.RawMessage{a.system(), a.user()}
	for len(all) < requests && !late() {
		switch n := len(a.messages); {
		case n > 5 && a.rng.IntN(8) == 0: // an earlier message is edited
			at := 1 + a.rng.IntN(n-1)
			for role(a.messages[at]) != "user" {
				at--
			}
			a.messages = append(a.messages[:at:at], a.user())
		case a.rng.IntN(24) == 0:
			a.day++
			a.messages = append([]json.RawMessage{a.system()}, a.messages[1:]...)
		}
		branches := [][]json.RawMessage{a.messages}
		if a.rng.IntN(8) == 0 { // another request continues the same conversation
			branches = append(branches, append(slices.Clone(a.messages[:len(a.messages)-1]), a.user()))
		}
		calls := a.rng.IntN(2) == 0
		asked := make([]*exchange, len(branches))
		for i, messages := range branches {
			asked[i] = &exchange{body: a.body(messages, calls)}
			if asked[i].new, err = a.known.missing(ctx, messages); err != nil {
				return all, err
			}
		}
		if err = inParallel(len(asked), func(i int) (err error) {
			asked[i].answer, err = a.site.ask(ctx, asked[i].body)
			return err
		}); err != nil {
			return all, err
		}
		all = append(all, asked...)
		for i, x := range asked {
			a.known.add(append(slices.Clone(branches[i]), x.answer.Choices[0].Message))
		}
		a.messages = append(slices.Clone(a.messages), asked[0].answer.Choices[0].Message)
		a.messages = append(a.messages, a.next(asked[0].answer)...)
	}
	return all, nil
}

// body returns a request to continue messages with a call or with text.
func (a *agent) body(messages []json.RawMessage, call bool) map[string]any {
	choice := "auto" // with "none" the template would omit the tools, and all text after them would differ
	if call {
		choice = "required"
	}
	return map[string]any{"messages": messages, "tools": agentTools, "tool_choice": choice, "seed": a.rng.IntN(1 << 30),
		"max_completion_tokens": 48, "temperature": 1, "logprobs": true, "top_logprobs": 3}
}

// next returns the messages after a reply: the results of its calls, or a message of the user.
func (a *agent) next(answer agentAnswer) (messages []json.RawMessage) {
	var m struct {
		Calls []struct{ ID string } `json:"tool_calls"`
	}
	if err := json.Unmarshal(answer.Choices[0].Message, &m); err != nil || len(m.Calls) == 0 {
		return []json.RawMessage{a.user()}
	}
	for _, c := range m.Calls {
		messages = append(messages, encoded(map[string]string{"role": "tool", "tool_call_id": c.ID,
			"content": a.lines(10 + a.rng.IntN(30))}))
	}
	return messages
}

func (a *agent) system() json.RawMessage {
	return encoded(map[string]string{"role": "system", "content": "You are a careful engineer. You read code, " +
		"run tests, and change one thing at a time.\n" + code + fmt.Sprintf("\nToday is 2026-11-%02d.", a.day)})
}

func (a *agent) user() json.RawMessage {
	return encoded(map[string]string{"role": "user", "content": fmt.Sprintf("Case %d: this fails.\n%s", a.rng.IntN(1e6),
		a.lines(1+a.rng.IntN(6)))})
}

// lines returns n lines of code, numbered as tools number them.
func (a *agent) lines(n int) string {
	var b strings.Builder
	all := strings.Split(strings.TrimSpace(code), "\n")
	for range n {
		fmt.Fprintf(&b, "%5d\t%s\n", a.rng.IntN(1000), all[a.rng.IntN(len(all))])
	}
	return b.String()
}

// encoded returns the JSON of a message.
func encoded(m map[string]string) json.RawMessage {
	data, err := json.Marshal(m)
	if err != nil {
		panic(err) // cannot fail for a map of strings
	}
	return data
}

// role returns the role of a message.
func role(message json.RawMessage) string {
	var m struct{ Role string }
	if err := json.Unmarshal(message, &m); err != nil {
		return ""
	}
	return m.Role
}

// knownChats holds the beginnings of conversations that a server has read or written.
type knownChats struct {
	lock     sync.Mutex
	prefixes map[string]bool
	template *template.Template
	tok      tokenizer.Tokenizer
}

// add adds a conversation and all its beginnings.
func (k *knownChats) add(messages []json.RawMessage) {
	k.lock.Lock()
	defer k.lock.Unlock()
	for n := range messages {
		k.prefixes[joined(messages[:n+1])] = true
	}
}

// missing returns the number of tokens of a request after the longest known beginning.
func (k *knownChats) missing(ctx context.Context, messages []json.RawMessage) (int, error) {
	k.lock.Lock()
	n := len(messages)
	for n > 0 && !k.prefixes[joined(messages[:n])] {
		n--
	}
	k.lock.Unlock()
	all, err := k.tokens(ctx, messages, true)
	if err != nil || n == 0 {
		return all, err
	}
	before, err := k.tokens(ctx, messages[:n], false)
	return all - before, err
}

// tokens returns the number of tokens of a conversation.
func (k *knownChats) tokens(ctx context.Context, messages []json.RawMessage, reply bool) (int, error) {
	in := template.Input{AddGenerationPrompt: reply}
	if err := json.Unmarshal(agentTools, &in.Tools); err != nil {
		return 0, err
	}
	for _, data := range messages {
		var m template.Message
		if err := m.UnmarshalJSON(data); err != nil {
			return 0, err
		}
		in.Messages = append(in.Messages, m)
	}
	text, err := k.template.Render(ctx, in)
	if err != nil {
		return 0, err
	}
	ids, err := k.tok.Encode(nil, []byte(text))
	return len(ids), err
}

// joined returns a key for messages.
func joined(messages []json.RawMessage) string {
	var b strings.Builder
	for _, m := range messages {
		b.Write(m)
		b.WriteByte('\n')
	}
	return b.String()
}
