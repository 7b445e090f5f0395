package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hippo-ssm/hippo/chat"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Model is a loaded model.
type Model struct {
	ModelOptions
	Sessions *SessionCache

	scores      *scores
	ahead       *readAhead
	made        time.Time
	constraints constraints
}

// ModelOptions are the parts of a model.
type ModelOptions struct {
	Name      string
	Net       *model.Model
	Tokenizer tokenizer.Tokenizer
	Settings  *chat.Settings  // of chats; nil: none
	Runner    session.Runner  // nil: session.Direct
	Texts     *store.Store    // the prompt cache; nil: none
	OnClose   func()          // called when a model of a Library is unloaded; may be nil
	Pooling   session.Pooling // drafts replies: see generate.Options

	Draft generate.Drafts // of replies: see generate.Options
}

// NewModel returns a model for a Server.
func NewModel(o ModelOptions) *Model {
	m := &Model{ModelOptions: o, made: time.Now(), scores: newScores(session.Chunk(o.Net), scoresMemory)}
	m.ahead, m.Sessions = newReadAhead(m), newSessionCache(sessionMemory)
	if m.Settings == nil {
		m.Settings = &chat.Settings{}
	}
	if m.Runner == nil {
		m.Runner = session.Direct{}
	}
	m.Runner = runner{m.Runner, m.Name, o.Net.Backend()}
	return m
}

// info describes a model that has no files.
func (m *Model) info() ModelInfo {
	text := fmt.Sprintf("%s %+v %s", m.Name, m.Net.Config, m.made)
	return ModelInfo{
		Name: m.Name, Bytes: int64(m.Net.Bytes()), Digest: fmt.Sprintf("%x", sha256.Sum256([]byte(text))),
		Modified: m.made, Parameters: int64(m.Net.NumParams()), Precision: m.Net.Precision().String(),
	}
}

// close closes an idle model, after calling going. It writes the prompt cache to its folder, if there is one.
func (m *Model) close(log *slog.Logger, going func(*Model)) {
	const longest = 30 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	before := request.Protect(ctx, 0, func(context.Context, int) error {
		going(m)
		return nil
	})
	err := request.Protect(ctx, 0, func(ctx context.Context, _ int) (err error) {
		m.Close()
		if m.Texts != nil {
			err = errors.Join(m.Texts.WriteTexts(ctx), m.Texts.Flush(ctx))
		}
		if m.OnClose != nil {
			m.OnClose()
		}
		return err
	})
	if err = errors.Join(before, err); err != nil {
		log.Error("model not closed as it should be", "model", m.Name, "error", err.Error())
	}
}

// Identity returns an identity that differs between models that read texts differently.
func (m *Model) Identity() string { return m.Net.Fingerprint() + m.reading() }

// reading returns the part of the identity that depends on how the model reads texts.
func (m *Model) reading() string {
	precision := m.Net.Precision().String()
	if p := m.Net.StatePrecision(); p != engine.Float32 {
		precision += "/" + p.String()
	}
	return fmt.Sprintf(" %s %s %d", precision, m.Tokenizer.Fingerprint(), session.Chunk(m.Net))
}

// HasIdentity reports whether an identity is the model's, as written by this or an earlier version of hippo.
func (m *Model) HasIdentity(identity string) bool {
	net, ok := strings.CutSuffix(identity, m.reading())
	return ok && m.Net.HasFingerprint(net)
}

// Defaults returns the default options of a reply: the model's own, or else OpenAI's.
func (m *Model) Defaults(maxTokens int) generate.Options {
	o := m.Ends()
	o.MaxTokens, o.Temperature = maxTokens, 1
	m.Settings.Defaults.Apply(&o)
	return o
}

// Ends returns the options with the model's own ends of a reply and its drafts.
func (m *Model) Ends() generate.Options {
	return generate.Options{EndIDs: m.Settings.EndIDs, Stop: m.Settings.Stop, Draft: m.Draft}
}

// Encode returns the ids of a prompt. A text gets the tokens that the tokenizer puts before every text.
func (m *Model) Encode(p request.Prompt) ([]int32, error) { return m.EncodeField("prompt", p) }

// EncodeField is like Encode, with another field name in errors.
func (m *Model) EncodeField(param string, p request.Prompt) ([]int32, error) {
	ids := p.IDs
	if ids == nil {
		before, _ := tokenizer.Affixes(m.Tokenizer)
		var err error
		if ids, err = m.Tokenizer.Encode(before, []byte(p.Text)); err != nil {
			return nil, request.Invalid(param, "%v", err)
		}
	}
	if end, ok := m.Tokenizer.EndOfText(); ok && len(ids) == 0 {
		ids = []int32{end} // a text starts where another one has ended
	}
	return ids, nil
}

// Check returns an error unless the model can read ids and generate the given number of further ids.
func (m *Model) Check(param string, ids []int32, limit, more int) error {
	vocab := m.Net.Config.VocabSize
	switch most := m.Net.MaxLength(); {
	case len(ids) == 0:
		return request.Invalid(param, "found nothing, want at least one token")
	case len(ids) > limit:
		return request.Invalid(param, "found %d tokens, want at most %d, the limit of this server", len(ids), limit)
	case most > 0 && len(ids)+more > most:
		e := request.Invalid(param,
			"found %d tokens and max_tokens %d, want at most %d in all, the length of the model",
			len(ids), more, most)
		e.Code = "context_length_exceeded"
		return e
	}
	for i, id := range ids {
		if id < 0 || int(id) >= vocab {
			return request.Invalid(param, "found the token id %d at place %d, want ids from 0 to %d", id, i, vocab-1)
		}
	}
	return nil
}

// TokenText returns the text of a single token. Invalid UTF-8 is written as OpenAI does, bytes:\xe2\x80, so that tokens
// for parts of characters differ.
func (m *Model) TokenText(id int32) string {
	data := m.Tokenizer.Decode(nil, []int32{id})
	if utf8.Valid(data) {
		return string(data)
	}
	var b strings.Builder
	b.WriteString("bytes:")
	for _, x := range data {
		fmt.Fprintf(&b, `\x%02x`, x)
	}
	return b.String()
}

// TextsOf returns the prompt cache for the scope of a request, or nil if the model has none.
func (m *Model) TextsOf(ctx context.Context) *store.Store {
	if m.Texts == nil {
		return nil
	}
	return m.Texts.Scope(scopeOf(ctx))
}

// scopeOf returns the scope of cached texts for a request, or "" without a request.
func scopeOf(ctx context.Context) string {
	if t := request.TrackOf(ctx); t != nil {
		return t.Scope
	}
	return ""
}

// Open reads a text and returns a batch after it, with logits, and how much of the text was cached.
func (m *Model) Open(ctx context.Context, plan []session.Segment, client string) (*generate.Batch, Cached, error) {
	if texts := m.TextsOf(ctx); texts != nil {
		s, found, err := texts.Open(ctx, store.Reading{Runner: m.Runner, Plan: plan, Client: client})
		if err != nil {
			return nil, Cached{}, err
		}
		return s, cachedOf(found), nil
	}
	s := generate.NewBatch(m.Net, 1)
	s.Chunk = session.Chunk(m.Net)
	return s, unstored, m.Runner.Run(ctx, &session.Request{Session: s, Segments: plan, Client: client})
}
