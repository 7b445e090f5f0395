package serve

import (
	"context"
	"sync"

	"github.com/hippo-ssm/hippo/chat/template"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
)

// rereads read in the background what the next request of a conversation will begin with. A reply was drawn, token by
// token, and its tokens need not be those of its text; when the client sends it back it is text, read in pieces of a
// chunk. So that nobody waits for that, it is read as soon as the reply has ended, behind everybody else.
type rereads struct {
	model *Model
	ctx   context.Context // done when the model is closed
	stop  context.CancelFunc
	all   sync.WaitGroup // of the readers, added to with mu held

	mu      sync.Mutex
	waiting []told
	bytes   int // of the texts of those that wait
	readers int
	closed  bool
}

// told is what a template was given, with the reply as its last message.
type told struct {
	client string
	in     template.Input
	bytes  int
}

// Limits of what is read in the background. What is more than may wait is not read, the oldest first: the next request
// of such a conversation reads it.
const (
	mostRereads   = 256
	rereadBytes   = 64 << 20
	mostRereaders = 2
	rereadDraws   = 4 // replies to one prompt
)

// rereadPriority is below that of every request.
const rereadPriority = -1

func newRereads(m *Model) *rereads {
	r := &rereads{model: m}
	r.ctx, r.stop = context.WithCancel(context.Background())
	return r
}

// reread has a conversation read that ends by a reply.
func (m *Model) reread(client string, in template.Input) {
	r := m.rereads
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.texts == nil || r.closed {
		return
	}
	bytes := 0
	for _, one := range in.Messages {
		bytes += len(one.Content())
	}
	r.waiting, r.bytes = append(r.waiting, told{client, in, bytes}), r.bytes+bytes
	for len(r.waiting) > mostRereads || r.bytes > rereadBytes {
		r.take()
	}
	if r.readers < mostRereaders {
		r.readers++
		r.all.Go(r.run)
	}
}

// run reads conversations until none waits.
func (r *rereads) run() {
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
		_ = contained(r.ctx, 0, func(ctx context.Context, _ int) error { return r.model.readAhead(ctx, next) })
	}
}

// take takes the conversation that has waited for longest. The lock is held.
func (r *rereads) take() told {
	next := r.waiting[0]
	r.waiting[0] = told{} // so that its memory is free
	r.waiting, r.bytes = r.waiting[1:], r.bytes-next.bytes
	return next
}

// close ends it.
func (r *rereads) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.all.Wait()
}

// readAhead reads what every next prompt of a conversation begins with, in the pieces in which that will be read: up to
// a multiple of the chunk. The rest is noted, so that the store can say where a text parts from it.
func (m *Model) readAhead(ctx context.Context, c told) error {
	ids, err := m.nextBegins(ctx, c.in)
	if err != nil {
		return err
	}
	if most := m.net.MaxLength(); most > 0 && len(ids) > most {
		return nil
	}
	chunk := session.Chunk(m.net)
	if n := len(ids) / chunk * chunk; n > 0 {
		_, _, err = m.texts.Open(ctx, store.Reading{
			Runner: m.runner, Plan: []session.Segment{{IDs: ids[:n]}}, Client: c.client, Priority: rereadPriority,
		})
	}
	if err != nil || len(ids)%chunk == 0 {
		return err
	}
	return m.texts.Put(ctx, []session.Segment{{IDs: ids}}, nil)
}

// nextBegins is the ids with which a prompt begins that has one more message, whatever that is: what two of them have
// in common.
func (m *Model) nextBegins(ctx context.Context, in template.Input) ([]int32, error) {
	next := func(text string) ([]int32, error) {
		text, err := m.render(ctx, "messages", with(in, userRole, text))
		if err != nil {
			return nil, err
		}
		return m.tok.Encode(nil, []byte(text))
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
func (m *Model) Close() { m.rereads.close() }
