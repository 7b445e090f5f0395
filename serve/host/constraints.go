package host

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hippo-ssm/hippo/generate/constrain"
	"github.com/hippo-ssm/hippo/serve/request"
)

// constraints caches the last used constraints of a model.
type constraints struct {
	mu         sync.Mutex
	vocabulary *constrain.Vocabulary
	known      map[string]*constrain.Constraint
	order      []string // least recently used first
}

// compiling limits the number of grammars that are compiled at a time. Each may take tens of megabytes and a second.
// Clients take turns.
var compiling = request.NewAdmission(2, 256, time.Minute)

// maxConstraints is the maximum number of cached constraints of a model. Each takes a few megabytes at most.
const maxConstraints = 16

// Constraint returns the constraint of a grammar, from the cache if the key is cached. Equal keys must stand for equal
// grammars. The markers are special tokens that replies may contain; they must be the same in every call.
func (m *Model) Constraint(ctx context.Context, param, key string, part constrain.Part,
	markers []string) (*constrain.Constraint, error) {
	all := &m.constraints
	if known := all.use(key); known != nil {
		return known, nil
	}
	who := request.ShareOf(ctx)
	if err := compiling.Enter(ctx, who); err != nil {
		return nil, fmt.Errorf("waiting to compile a grammar: %w", err)
	}
	defer compiling.Leave(who.Client)
	if known := all.use(key); known != nil { // another request has compiled it
		return known, nil
	}
	grammar, err := constrain.Compile(part)
	if err != nil {
		return nil, request.Invalid(param, "%v", err)
	}
	made, err := constrain.New(grammar, m.Tokenizer, all.of(m, markers))
	if err != nil {
		return nil, request.Invalid(param, "%v", err)
	}
	all.add(key, made)
	go made.Ahead() // while the prompt is read
	return made, nil
}

// Vocabulary returns the tokens with which a model writes texts. The markers are as for Constraint.
func (m *Model) Vocabulary(markers []string) *constrain.Vocabulary {
	return m.constraints.of(m, markers)
}

// use returns the cached constraint of a key, or nil.
func (c *constraints) use(key string) *constrain.Constraint {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.known[key]
	if found != nil {
		c.order = append(slices.DeleteFunc(c.order, func(k string) bool { return k == key }), key)
	}
	return found
}

func (c *constraints) add(key string, made *constrain.Constraint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[string]*constrain.Constraint{}
	}
	if c.known[key] == nil {
		c.order = append(c.order, key)
	}
	c.known[key] = made
	if len(c.order) > maxConstraints {
		delete(c.known, c.order[0])
		c.order = c.order[1:]
	}
}

// of returns the vocabulary of a model. It creates the vocabulary on first use.
func (c *constraints) of(m *Model, markers []string) *constrain.Vocabulary {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.vocabulary == nil {
		c.vocabulary = constrain.NewVocabulary(m.Tokenizer, m.Settings.EndIDs, markers...)
	}
	return c.vocabulary
}
