package host

import (
	"context"
	"slices"
	"sync"

	"github.com/hippo-ssm/hippo/generate/constrain"
	"github.com/hippo-ssm/hippo/serve/request"
)

// constraints are those of a model that were used last.
type constraints struct {
	mu         sync.Mutex
	vocabulary *constrain.Vocabulary
	known      map[string]*constrain.Constraint
	order      []string // the oldest first
}

// compiling has room for the grammars that are compiled at a time, each of which may take some ten megabytes meanwhile.
var compiling = make(chan struct{}, 2)

// maxConstraints is how many constraints a model keeps. Each holds some megabytes at most.
const maxConstraints = 16

// Constraint is the constraint of a grammar. What has the same key is the same grammar. The markers are special tokens
// that replies may have, the same in every call.
func (m *Model) Constraint(ctx context.Context, param, key string, part constrain.Part,
	markers []string) (*constrain.Constraint, error) {
	all := &m.constraints
	if known := all.use(key); known != nil {
		return known, nil
	}
	select {
	case compiling <- struct{}{}:
		defer func() { <-compiling }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if known := all.use(key); known != nil { // another request wanted the same
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
	return made, nil
}

// use is the constraint with a key, nil if it is not kept.
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

// of is the vocabulary of a model, made when it is first used.
func (c *constraints) of(m *Model, markers []string) *constrain.Vocabulary {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.vocabulary == nil {
		c.vocabulary = constrain.NewVocabulary(m.Tokenizer, m.Settings.EndIDs, markers...)
	}
	return c.vocabulary
}
