package host

import (
	"context"
	"sync"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
)

// readAhead reads the start of a conversation's next request in the background. A reply is generated token by token.
// When the client sends it back, it is text, which is read in segments of a chunk and whose tokens may differ. To save
// time, readAhead reads that text right after the reply, at the lowest priority.
type readAhead struct {
	model *Model
	ctx   context.Context // done when the model is closed
	stop  context.CancelFunc
	all   sync.WaitGroup // of the readers; mu must be held to add one

	mu      sync.Mutex
	waiting []conversation
	bytes   int // size of the queued texts
	readers int
	closed  bool
}

// conversation is the input of a template, with the reply as its last message.
type conversation struct {
	client, scope string
	in            template.Input
	bytes         int
}

// Limits of reading in the background. If too much is queued, the oldest conversations are skipped. Their next requests
// then read the texts.
const (
	maxAhead         = 256
	maxAheadBytes    = 64 << 20
	maxAheadReaders  = 2
	ReadAheadReplies = 4 // replies to one prompt
)

// aheadPriority is below that of every request.
const aheadPriority = -1

func newReadAhead(m *Model) *readAhead {
	r := &readAhead{model: m}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// ReadAhead queues a client's conversation that ends with a reply, to be read and cached in a scope.
func (m *Model) ReadAhead(client, scope string, in template.Input) {
	r := m.ahead
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.Texts == nil || r.closed {
		return
	}
	bytes := 0
	for _, one := range in.Messages {
		bytes += len(one.Content())
	}
	r.waiting, r.bytes = append(r.waiting, conversation{client, scope, in, bytes}), r.bytes+bytes
	for len(r.waiting) > maxAhead || r.bytes > maxAheadBytes {
		r.take()
	}
	if r.readers < maxAheadReaders {
		r.readers++
		r.all.Go(r.run)
	}
}

// run reads conversations until the queue is empty.
func (r *readAhead) run() {
	for {
		r.mu.Lock()
		if len(r.waiting) == 0 || r.closed {
			r.readers--
			r.mu.Unlock()
			return
		}
		next := r.take()
		r.mu.Unlock()
		// On an error, for example because the template requires other messages, the next request reads the text and
		// reports the error.
		_ = request.Protect(r.ctx, 0, func(ctx context.Context, _ int) error { return r.model.readNext(ctx, next) })
	}
}

// take removes the oldest conversation from the queue. mu must be held.
func (r *readAhead) take() conversation {
	next := r.waiting[0]
	r.waiting[0] = conversation{} // to free its memory
	r.waiting, r.bytes = r.waiting[1:], r.bytes-next.bytes
	return next
}

// close stops the readers.
func (r *readAhead) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.all.Wait()
}

// readNext reads the common start of all next prompts of a conversation, up to a multiple of the chunk and in the same
// segments as these prompts. It stores the rest as text only, so that the store can report where a text diverges.
func (m *Model) readNext(ctx context.Context, c conversation) error {
	ids, err := m.nextBegins(ctx, c.in)
	if err != nil {
		return err
	}
	if most := m.Net.MaxLength(); most > 0 && len(ids) > most {
		return nil
	}
	chunk, texts := session.Chunk(m.Net), m.Texts.Scope(c.scope)
	if n := len(ids) / chunk * chunk; n > 0 {
		_, _, err = texts.Open(ctx, store.Reading{
			Runner: m.Runner, Plan: []session.Segment{{IDs: ids[:n]}}, Client: c.client, Priority: aheadPriority,
		})
	}
	if err != nil || len(ids)%chunk == 0 {
		return err
	}
	return texts.Put(ctx, []session.Segment{{IDs: ids}}, nil)
}

// nextBegins returns the common prefix of all prompts with one more message. It compares two of them.
func (m *Model) nextBegins(ctx context.Context, in template.Input) ([]int32, error) {
	next := func(text string) ([]int32, error) {
		text, err := m.Render(ctx, "messages", WithMessage(in, template.Text(UserRole, text)))
		if err != nil {
			return nil, err
		}
		return m.Tokenizer.Encode(nil, []byte(text))
	}
	one, err := next("a")
	if err != nil {
		return nil, err
	}
	other, err := next("t")
	if err != nil {
		return nil, err
	}
	n := 0
	for n < min(len(one), len(other)) && one[n] == other[n] {
		n++
	}
	return one[:n], nil
}

// Close stops the background work of the model. It does not close the runner and the store.
func (m *Model) Close() { m.ahead.close() }
