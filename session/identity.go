package session

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Errors that report why a saved session or snapshot is refused. Load wraps them with details.
var (
	ErrDamaged   = errors.New("it is damaged")
	ErrModel     = errors.New("it is of another model")
	ErrPrecision = errors.New("it is of another precision")
	ErrTokenizer = errors.New("it is of another tokenizer")
	ErrVersion   = errors.New("it is of a newer version of hippo")
	ErrKernels   = errors.New("another version or processor computed it, which rounds otherwise: read its text again")
	ErrKey       = errors.New("the key is not that of the file")
)

// Identity identifies the models that can continue a saved session or snapshot: those with the same weights,
// precisions, tokenizer, chunk and kernels.
type Identity struct {
	Model     string `json:"model"` // see model.Model.Fingerprint
	Precision string `json:"precision"`
	States    string `json:"states,omitempty"` // "bf16", or "" for float32: see model.Backbone.SetStatePrecision
	Tokenizer string `json:"tokenizer"`
	Chunk     int    `json:"chunk"`
	Kernels   int    `json:"kernels,omitempty"` // see model.Model.Kernels
}

// Identify returns the identity of a model and its tokenizer.
func Identify(m *model.Model, tok tokenizer.Tokenizer) Identity {
	id := Identity{Model: m.Fingerprint(), Precision: m.Precision().String(), Tokenizer: tok.Fingerprint(),
		Chunk: Chunk(m), Kernels: m.Kernels()}
	if p := m.StatePrecision().String(); p != float32States {
		id.States = p
	}
	return id
}

const float32States = "float32"

// StatePrecision returns the name of the precision of states.
func (id Identity) StatePrecision() string { return cmp.Or(id.States, float32States) }

// Check returns an error unless a session or snapshot with the identity saved can be continued with m, whose identity
// is id. Check also accepts the fingerprints that earlier versions gave m.
func (id Identity) Check(saved Identity, m *model.Model) error {
	if saved.Precision == id.Precision && id.Model == m.Fingerprint() && m.HasFingerprint(saved.Model) {
		saved.Model = id.Model
	}
	for _, c := range []struct {
		err         error
		found, want string
	}{
		{ErrPrecision, saved.Precision, id.Precision},
		{ErrPrecision, "states in " + saved.StatePrecision(), "states in " + id.StatePrecision()},
		{ErrModel, saved.Model, id.Model},
		{ErrTokenizer, saved.Tokenizer, id.Tokenizer},
		{ErrModel, fmt.Sprint("pieces of ", saved.Chunk), fmt.Sprint("pieces of ", id.Chunk)},
		{ErrKernels, fmt.Sprint("kernels ", saved.Kernels), fmt.Sprint("kernels ", id.Kernels)},
	} {
		if c.found != c.want {
			return fmt.Errorf("%w: found %s, want %s", c.err, c.found, c.want)
		}
	}
	return nil
}
