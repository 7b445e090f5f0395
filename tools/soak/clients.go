package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// prompts returns the prompts of the clients.
func prompts() (all []string) {
	for _, begin := range []string{
		"Call me", "The whale", "It was", "Ein Wal", "Le cachalot est", "鯨は", "And then, the sea",
	} {
		for i := range 4 {
			all = append(all, begin+strings.Repeat(" and so on", i*i*3))
		}
	}
	return all
}

// completion returns a request for a reply that is drawn with a seed. The reply is the same each time, whatever the
// other clients do.
func (s *soak) completion(prompt string, stream bool) []byte {
	body, err := json.Marshal(map[string]any{
		"prompt": prompt, "max_tokens": s.tokens, "temperature": 2, "seed": crc32.ChecksumIEEE([]byte(prompt)),
		"stream": stream, "ignore_eos": true,
	})
	if err != nil {
		panic(err) // impossible for texts and numbers
	}
	return body
}

// chunk is a response, or an event of a streamed response.
type chunk struct {
	ID      string
	Choices []struct {
		Text   string
		Finish *string `json:"finish_reason"`
	}
	Error *struct{ Message string }
}

// errNoAnswer reports that there is no response to compare, as the server was busy or was killed.
var errNoAnswer = errors.New("no answer")

// post sends a POST request.
func (s *soak) post(ctx context.Context, path string, body []byte) (*http.Response, error) {
	return s.send(ctx, http.MethodPost, path, body)
}

// send sends a request with a body, which may be nil.
func (s *soak) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	return s.http.Do(r)
}

// reply requests the reply to a prompt, whole or as a stream, and returns its text.
func (s *soak) reply(ctx context.Context, prompt string, stream bool) (string, error) {
	a, err := s.post(ctx, "/v1/completions", s.completion(prompt, stream))
	if err != nil {
		return "", errNoAnswer
	}
	defer a.Body.Close()
	switch {
	case a.StatusCode == http.StatusTooManyRequests || a.StatusCode == http.StatusServiceUnavailable:
		s.did("turned away")
		return "", errNoAnswer
	case a.StatusCode != http.StatusOK:
		text, _ := io.ReadAll(io.LimitReader(a.Body, 500))
		return "", fmt.Errorf("status %d: %s", a.StatusCode, text)
	}
	if !stream {
		var c chunk
		if err := json.NewDecoder(a.Body).Decode(&c); err != nil {
			return "", errNoAnswer
		}
		return c.Choices[0].Text, nil
	}
	var text strings.Builder
	lines := bufio.NewScanner(a.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			return text.String(), nil
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			return "", fmt.Errorf("an event is %.200q", data)
		}
		if c.Error != nil {
			return "", errNoAnswer
		}
		text.WriteString(c.Choices[0].Text)
	}
	return "", errNoAnswer
}

// learn requests the replies to all prompts one after another, and stores them in s.alone.
func (s *soak) learn(ctx context.Context) error {
	texts := map[string]bool{}
	for _, p := range prompts() {
		text, err := s.reply(ctx, p, false)
		if err != nil {
			return err
		}
		s.alone[p], texts[text] = text, true
	}
	if 2*len(texts) < len(s.alone) {
		return fmt.Errorf("%d prompts have %d replies: what is mixed up would not be seen", len(s.alone), len(texts))
	}
	s.keeps = slices.ContainsFunc(s.command, func(word string) bool {
		return word == "--store" || strings.HasPrefix(word, "--store=")
	})
	return nil
}

// client sends random requests until ctx is done.
func (s *soak) client(ctx context.Context, r *rand.Rand) {
	all := prompts()
	for ctx.Err() == nil {
		if run, _ := s.life(); run == nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		prompt := all[r.IntN(len(all))]
		switch what := r.IntN(25); {
		case what < 10:
			s.compare(ctx, prompt, what < 5)
		case what < 13:
			s.goAway(ctx, prompt, time.Duration(r.IntN(300))*time.Millisecond)
		case what < 15:
			s.rubbish(ctx, r)
		case what < 16:
			s.stall(ctx, prompt, r)
		case what < 17:
			s.figuresOfModels(ctx)
		case what < 18:
			s.slow(ctx, r)
		case s.keeps && what < 22:
			s.converse(ctx, prompt, r)
		case s.keeps && s.keeping.Add(1) < mostKept:
			s.keep(ctx, prompt)
		}
	}
}

// compare checks that a reply is the same as without other clients.
func (s *soak) compare(ctx context.Context, prompt string, stream bool) {
	text, err := s.reply(ctx, prompt, stream)
	switch {
	case errors.Is(err, errNoAnswer):
		s.did("no answer")
	case err != nil:
		s.problem("%q: %v", prompt, err)
	case text != s.alone[prompt]:
		s.problem("the reply to %q is %q, and alone it is %q", prompt, text, s.alone[prompt])
	default:
		s.did("compared")
	}
}

// goAway disconnects in the middle of a reply.
func (s *soak) goAway(ctx context.Context, prompt string, after time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, after)
	defer cancel()
	s.reply(ctx, prompt, true)
	s.did("gone")
}

// rubbish sends random bytes that are not a valid request.
func (s *soak) rubbish(ctx context.Context, r *rand.Rand) {
	noise := make([]byte, r.IntN(5000))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	if s.did("rubbish"); r.IntN(2) == 0 {
		c, err := net.DialTimeout("tcp", s.address, time.Second)
		if err != nil {
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(2 * time.Second))
		c.Write(noise)
		io.Copy(io.Discard, c)
		return
	}
	bodies := [][]byte{
		noise, []byte(`{"prompt":`), []byte(`{"prompt":[[-1]]}`), []byte(`{"prompt":"a","n":1000000}`),
		[]byte(`{"prompt":[1e99]}`), bytes.Repeat([]byte("["), 100000), []byte(`{"prompt":"a","max_tokens":-1}`),
	}
	a, err := s.post(ctx, "/v1/completions", bodies[r.IntN(len(bodies))])
	if err != nil {
		return
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	s.did(fmt.Sprint("rubbish: status ", a.StatusCode))
	refused := a.StatusCode >= 400 && a.StatusCode < 500 || a.StatusCode == http.StatusServiceUnavailable
	if err == nil && !refused {
		s.problem("rubbish is answered with status %d: %.200s", a.StatusCode, text)
	}
}

// stall sends half of a request, or does not read the reply.
func (s *soak) stall(ctx context.Context, prompt string, r *rand.Rand) {
	c, err := net.DialTimeout("tcp", s.address, time.Second)
	if err != nil {
		return
	}
	defer c.Close()
	s.did("stalled")
	body := s.completion(prompt, true)
	half := len(body)
	if r.IntN(2) == 0 {
		half /= 2
	}
	fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body[:half])
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(r.IntN(5000)) * time.Millisecond):
	}
}

// figuresOfModels sends requests that need no model.
func (s *soak) figuresOfModels(ctx context.Context) {
	for _, path := range []string{"/v1/models", "/health", "/no-such-path"} {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+path, nil)
		if err != nil {
			return
		}
		if a, err := s.http.Do(r); err == nil {
			io.Copy(io.Discard, a.Body)
			a.Body.Close()
		}
	}
	s.did("asked")
}
