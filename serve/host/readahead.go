package host

import (
	"context"
	"sync"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/serve/request"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
)

// readAhead read in the background what the next request of a conversation will begin with. A reply was drawn, token by
// token, and its tokens need not be those of its text; when the client sends it back it is text, read in pieces of a
// chunk. So that nobody waits for that, it is read as soon as the reply has ended, behind everybody else.
type readAhead struct {
	model *Model
	ctx   context.Context // done when the model is closed
	stop  context.CancelFunc
	all   sync.WaitGroup // of the readers, added to with mu held

	mu      sync.Mutex
	waiting []conversation
	bytes   int // of the texts of those that wait
	readers int
	closed  bool
}

// conversation is what a template was given, with the reply as its last message.
type conversation struct {
	client string
	in     template.Input
	bytes  int
}

// Limits of what is read in the background. What is more than may wait is not read, the oldest first: the next request
// of such a conversation reads it.
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

// ReadAhead has a conversation read that ends by a reply.
func (m *Model) ReadAhead(client string, in template.Input) {
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
	r.waiting, r.bytes = append(r.waiting, conversation{client, in, bytes}), r.bytes+bytes
	for len(r.waiting) > maxAhead || r.bytes > maxAheadBytes {
		r.take()
	}
	if r.readers < maxAheadReaders {
		r.readers++
		r.all.Go(r.run)
	}
}

// run reads conversations until none waits.
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
		// What cannot be read, for example because its template wants other messages, is left to the next request,
		// which is told.
		_ = request.Protect(r.ctx, 0, func(ctx context.Context, _ int) error { return r.model.readNext(ctx, next) })
	}
}

// take takes the conversation that has waited for longest. The lock is held.
func (r *readAhead) take() conversation {
	next := r.waiting[0]
	r.waiting[0] = conversation{} // so that its memory is free
	r.waiting, r.bytes = r.waiting[1:], r.bytes-next.bytes
	return next
}

// close ends it.
func (r *readAhead) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.all.Wait()
}

// readNext reads what every next prompt of a conversation begins with, in the pieces in which that will be read: up to
// a multiple of the chunk. The rest is noted, so that the store can say where a text parts from it.
func (m *Model) readNext(ctx context.Context, c conversation) error {
	ids, err := m.nextBegins(ctx, c.in)
	if err != nil {
		return err
	}
	if most := m.Net.MaxLength(); most > 0 && len(ids) > most {
		return nil
	}
	chunk := session.Chunk(m.Net)
	if n := len(ids) / chunk * chunk; n > 0 {
		_, _, err = m.Texts.Open(ctx, store.Reading{
			Runner: m.Runner, Plan: []session.Segment{{IDs: ids[:n]}}, Client: c.client, Priority: aheadPriority,
		})
	}
	if err != nil || len(ids)%chunk == 0 {
		return err
	}
	return m.Texts.Put(ctx, []session.Segment{{IDs: ids}}, nil)
}

// nextBegins is the ids with which a prompt begins that has one more message, whatever that is: what two of them have
// in common.
func (m *Model) nextBegins(ctx context.Context, in template.Input) ([]int32, error) {
	next := func(text string) ([]int32, error) {
		text, err := m.Render(ctx, "messages", WithMessage(in, UserRole, text))
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

// Close ends what the model does in the background. Whoever runs it, and the store of its texts, are left to those who
// made them.
func (m *Model) Close() { m.ahead.close() }
