package serve

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
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Model is a model that a Server answers with.
type Model struct {
	name     string
	net      *model.Model
	tok      tokenizer.Tokenizer
	settings *chat.Settings
	runner   session.Runner
	texts    *store.Store
	scores   *scores
	rereads  *rereads
	live     *live
	made     time.Time
	onClose  func()
	pooling  session.Pooling

	constraints constraints
}

// ModelOptions say what a model is and who runs it.
type ModelOptions struct {
	Name      string
	Net       *model.Model
	Tokenizer tokenizer.Tokenizer
	Settings  *chat.Settings // of chats; nil where nothing is known
	Runner    session.Runner // who reads and writes; session.Direct where it is nil
	Texts     *store.Store   // of what was read; nil where every text is read from its start
	Close     func()         // is called when a model of a Library goes; may be nil
	Pooling   session.Pooling
}

// NewModel returns a model for a Server.
func NewModel(o ModelOptions) *Model {
	m := &Model{
		name: o.Name, net: o.Net, tok: o.Tokenizer, settings: o.Settings, runner: o.Runner,
		texts: o.Texts, made: time.Now(), onClose: o.Close, pooling: o.Pooling,
		scores: newScores(session.Chunk(o.Net), scoresMemory),
	}
	m.rereads, m.live = newRereads(m), newLive(liveMemory)
	if m.settings == nil {
		m.settings = &chat.Settings{}
	}
	if m.runner == nil {
		m.runner = session.Direct{}
	}
	m.runner = runner{m.runner, m.name}
	return m
}

// info describes a model that has no files.
func (m *Model) info() ModelInfo {
	text := fmt.Sprintf("%s %+v %s", m.name, m.net.Config, m.made)
	return ModelInfo{
		Name: m.name, Bytes: int64(m.net.Bytes()), Digest: fmt.Sprintf("%x", sha256.Sum256([]byte(text))),
		Modified: m.made, Parameters: int64(m.net.NumParams()), Precision: m.net.Precision().String(),
	}
}

// close gives up a model that nobody uses, after going was called. What it has read is kept where there is a place for
// it outside of memory.
func (m *Model) close(log *slog.Logger, going func(*Model)) {
	const longest = 30 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	before := contained(ctx, 0, func(context.Context, int) error {
		going(m)
		return nil
	})
	err := contained(ctx, 0, func(ctx context.Context, _ int) (err error) {
		m.Close()
		if m.texts != nil {
			err = errors.Join(m.texts.WriteTexts(ctx), m.texts.Flush(ctx))
		}
		if m.onClose != nil {
			m.onClose()
		}
		return err
	})
	if err = errors.Join(before, err); err != nil {
		log.Error("model not closed as it should be", "model", m.name, "error", err.Error())
	}
}

// identity tells the model from others, which read texts otherwise.
func (m *Model) identity() string { return m.net.Fingerprint() + m.reading() }

// reading is what the identity says besides the model.
func (m *Model) reading() string {
	return fmt.Sprintf(" %s %s %d", m.net.Precision(), m.tok.Fingerprint(), session.Chunk(m.net))
}

// wrote tells whether what has an identity is of the model, also where an earlier version of hippo named it.
func (m *Model) wrote(identity string) bool {
	net, ok := strings.CutSuffix(identity, m.reading())
	return ok && m.net.HasFingerprint(net)
}

// defaults are the options of a reply that a request says nothing of: the model's own, else those of OpenAI.
func (m *Model) defaults(maxTokens int) generate.Options {
	o := m.ends()
	o.MaxTokens, o.Temperature = maxTokens, 1
	m.settings.Defaults.Apply(&o)
	return o
}

// ends are the options that say where the model itself ends a reply.
func (m *Model) ends() generate.Options {
	return generate.Options{EndIDs: m.settings.EndIDs, Stop: m.settings.Stop}
}

// encode is the ids of a prompt: of a text those that the tokenizer puts before every text, and its own.
func (m *Model) encode(p prompt) ([]int32, error) { return m.encodeField("prompt", p) }

// encodeField is encode for a field of another name.
func (m *Model) encodeField(param string, p prompt) ([]int32, error) {
	ids := p.ids
	if ids == nil {
		before, _ := tokenizer.Affixes(m.tok)
		var err error
		if ids, err = m.tok.Encode(before, []byte(p.text)); err != nil {
			return nil, wrong(param, "%v", err)
		}
	}
	if end, ok := m.tok.EndOfText(); ok && len(ids) == 0 {
		ids = []int32{end} // a text begins where another has ended
	}
	return ids, nil
}

// check returns an error unless the model can read ids and write so many more.
func (m *Model) check(param string, ids []int32, limit, more int) error {
	vocab := m.net.Config.VocabSize
	switch most := m.net.MaxLength(); {
	case len(ids) == 0:
		return wrong(param, "found nothing, want at least one token")
	case len(ids) > limit:
		return wrong(param, "found %d tokens, want at most %d, the limit of this server", len(ids), limit)
	case most > 0 && len(ids)+more > most:
		e := wrong(param, "found %d tokens and max_tokens %d, want at most %d in all, the length of the model",
			len(ids), more, most)
		e.Code = "context_length_exceeded"
		return e
	}
	for i, id := range ids {
		if id < 0 || int(id) >= vocab {
			return wrong(param, "found the token id %d at place %d, want ids from 0 to %d", id, i, vocab-1)
		}
	}
	return nil
}

// tokenText is the text of a token alone. What is no text is written as OpenAI does, such as bytes:\xe2\x80, so that
// tokens of parts of characters stay apart.
func (m *Model) tokenText(id int32) string {
	data := m.tok.Decode(nil, []int32{id})
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

// open returns a session behind a text, with logits, and how much of it had been read before.
func (m *Model) open(ctx context.Context, plan []session.Segment, client string) (*generate.Batch, stored, error) {
	if m.texts != nil {
		s, found, err := m.texts.Open(ctx, store.Reading{Runner: m.runner, Plan: plan, Client: client})
		if err != nil {
			return nil, stored{}, err
		}
		return s, storedOf(found), nil
	}
	s := generate.NewBatch(m.net, 1)
	s.Chunk = session.Chunk(m.net)
	return s, unstored, m.runner.Run(ctx, &session.Request{Session: s, Segments: plan, Client: client})
}
