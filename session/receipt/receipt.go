// Package receipt records how a reply was computed, so that anyone who has the model can compute it again: the weights,
// the prompt as it was read, the sampling, and a chained hash of the logits at each token. Audit returns the first
// token that differs.
package receipt

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"math"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/session"
)

// Receipt describes how a reply was computed.
type Receipt struct {
	Object   string           `json:"object"` // the constant Object
	Version  int              `json:"version"`
	Created  int64            `json:"created_at"`
	Program  string           `json:"program"` // version of hippo
	CPU      string           `json:"cpu"`     // see model.Model.Level
	Model    string           `json:"model"`   // name of the model
	Identity session.Identity `json:"identity"`
	Template string           `json:"template_sha256,omitempty"` // of the model's chat template
	Prompt   []Part           `json:"prompt"`
	// State is the state with which the prompt starts, or nil.
	State *State `json:"state,omitempty"`
	// PromptHash is the SHA-256 of the ids of the prompt, 4 bytes each, little-endian.
	PromptHash string    `json:"prompt_sha256"`
	Settings   Settings  `json:"settings"`
	IDs        []int32   `json:"ids"`    // of the reply
	Logits     []float32 `json:"logits"` // of each id, as the model computed it
	Chain      []string  `json:"chain"`  // see chain
	End        string    `json:"end"`    // reason, as in generate.Piece
	Signer     string    `json:"signer"`
	Signature  string    `json:"signature"` // of the receipt without this field, in hexadecimal
}

// Object is the type of a receipt. version is the version of its format, versionOfStates that of receipts with a state.
const (
	Object          = "hippo.receipt"
	version         = 1
	versionOfStates = 2
)

// State identifies a state after the first ids of a prompt.
type State struct {
	Hash     string `json:"hash"` // of the state's file, see session.Checked
	Position int    `json:"position"`
}

// Part is a part of a prompt that was read in one piece; see session.Segment. IDs is nil if the client requested only a
// hash.
type Part struct {
	Tokens int     `json:"tokens"`
	IDs    []int32 `json:"ids,omitempty"`
	Drawn  bool    `json:"drawn,omitempty"`
}

// Settings are the options of a reply.
type Settings struct {
	generate.Options
	Seed      uint64            `json:"seed,string"` // a string, as not every language reads 64 bits from a JSON number
	EndIDs    []int32           `json:"end_ids,omitempty"`
	StopIDs   []int32           `json:"stop_ids,omitempty"`
	MinTokens int               `json:"min_tokens,omitempty"`
	LogitBias map[int32]float32 `json:"logit_bias,omitempty"`

	AllowedIDs  []int32     `json:"allowed_ids,omitempty"`
	IncludeStop bool        `json:"include_stop,omitempty"`
	DRY         *sample.DRY `json:"dry,omitempty"`
	// Constrained reports that a format, tools, a grammar or bad words limited the tokens that could be drawn. Audit
	// then takes the ids from the receipt and checks only the logits.
	Constrained bool `json:"constrained,omitempty"`
}

// options returns the options for drawing the reply.
func (s *Settings) options() generate.Options {
	o := s.Options
	o.Seed, o.EndIDs, o.StopIDs, o.MinTokens, o.LogitBias = s.Seed, s.EndIDs, s.StopIDs, s.MinTokens, s.LogitBias
	o.AllowedIDs, o.IncludeStop = s.AllowedIDs, s.IncludeStop
	if s.DRY != nil {
		o.DRY = *s.DRY
	}
	return o
}

// linkLen is the number of bytes of a link.
const linkLen = 16

// chain computes a hash chain of logits. A link is the first bytes of the SHA-256 of the previous link, which is zero
// at the start, and of the logits as float32, little-endian.
type chain struct {
	hash hash.Hash
	last [linkLen]byte
	buf  []byte
}

func newChain() *chain { return &chain{hash: sha256.New()} }

// add returns the next link, in hexadecimal.
func (c *chain) add(logits []float32) string {
	c.hash.Reset()
	c.hash.Write(c.last[:])
	c.buf = c.buf[:0]
	for _, x := range logits {
		c.buf = binary.LittleEndian.AppendUint32(c.buf, math.Float32bits(x))
	}
	c.hash.Write(c.buf)
	copy(c.last[:], c.hash.Sum(nil))
	return hex.EncodeToString(c.last[:])
}

// Recorder records the receipt of a reply while it is drawn.
type Recorder struct {
	receipt Receipt
	chain   *chain
}

// Reply describes the reply for which a receipt is recorded.
type Reply struct {
	Program, Model string
	CPU            string // see model.Model.Level
	Identity       session.Identity
	Template       string // source of the chat template, or ""
	Plan           []session.Segment
	Options        generate.Options
	HashOnly       bool // omit the ids of the prompt
	State          *State
}

// New returns a recorder of a reply that has no tokens yet.
func New(of Reply) *Recorder {
	o := of.Options
	r := Receipt{
		Object: Object, Version: version, Program: of.Program, CPU: of.CPU, Model: of.Model,
		Identity: of.Identity, PromptHash: session.TextHash(idsOf(of.Plan)), Settings: Settings{
			Options: o, Seed: o.Seed, EndIDs: o.EndIDs, StopIDs: o.StopIDs, MinTokens: o.MinTokens,
			LogitBias: o.LogitBias, AllowedIDs: o.AllowedIDs, IncludeStop: o.IncludeStop,
			Constrained: o.Constraint != nil || o.BadWords != nil,
		},
	}
	if r.State = of.State; r.State != nil {
		r.Version = versionOfStates
	}
	if o.DRY.Multiplier != 0 {
		r.Settings.DRY = &o.DRY
	}
	if of.Template != "" {
		sum := sha256.Sum256([]byte(of.Template))
		r.Template = hex.EncodeToString(sum[:])
	}
	for _, s := range of.Plan {
		p := Part{Tokens: len(s.IDs), IDs: s.IDs, Drawn: s.Drawn}
		if of.HashOnly {
			p.IDs = nil
		}
		if p.Tokens > 0 { // a part is empty if a reply has no token but the end
			r.Prompt = append(r.Prompt, p)
		}
	}
	return &Recorder{r, newChain()}
}

// idsOf returns the ids of a plan.
func idsOf(plan []session.Segment) (ids []int32) {
	for _, s := range plan {
		ids = append(ids, s.IDs...)
	}
	return ids
}

// Add records an id and the logits from which it was drawn.
func (r *Recorder) Add(logits []float32, id int32) {
	r.receipt.IDs = append(r.receipt.IDs, id)
	r.receipt.Logits = append(r.receipt.Logits, logits[id])
	r.receipt.Chain = append(r.receipt.Chain, r.chain.add(logits))
}

// Sign completes the receipt and signs it.
func (r *Recorder) Sign(created int64, end string, with *session.Signer) (json.RawMessage, error) {
	r.receipt.Created, r.receipt.End = created, end
	return r.receipt.Sign(with)
}

// Sign signs the receipt and encodes it.
func (r *Receipt) Sign(with *session.Signer) (json.RawMessage, error) {
	key, err := with.Public()
	if err != nil {
		return nil, err
	}
	r.Signer = key.String()
	hash, err := r.hash()
	if err != nil {
		return nil, err
	}
	signature, err := with.Sign(signsReceipt, hash)
	if err != nil {
		return nil, err
	}
	r.Signature = hex.EncodeToString(signature)
	return json.Marshal(r)
}

const signsReceipt = "hippo receipt" // see session.PublicKey.Verify

// hash returns the SHA-256 of the receipt without its signature, as encoding/json writes it. So a receipt may be
// reformatted, and its fields reordered.
func (r Receipt) hash() (h [32]byte, err error) {
	r.Signature = ""
	data, err := json.Marshal(r)
	return sha256.Sum256(data), err
}

// Read reads a receipt and checks that it is complete and that its signature is right. It returns the signer's public
// key.
func Read(data []byte) (*Receipt, session.PublicKey, error) {
	r := &Receipt{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields() // the signature does not cover unknown fields
	if err := d.Decode(r); err != nil {
		return nil, session.PublicKey{}, fmt.Errorf("receipt: %w", err)
	}
	key, err := r.signer()
	if err == nil {
		err = r.check()
	}
	if err != nil {
		return nil, key, fmt.Errorf("receipt: %w", err)
	}
	return r, key, nil
}

// signer returns the key that signed the receipt.
func (r *Receipt) signer() (session.PublicKey, error) {
	if r.Signer == "" || r.Signature == "" {
		return session.PublicKey{}, session.ErrUnsigned
	}
	key, err := session.ParsePublicKey(r.Signer)
	if err != nil {
		return key, fmt.Errorf("signer: %w", err)
	}
	signature, err := hex.DecodeString(r.Signature)
	if err != nil {
		return key, fmt.Errorf("signature: %w", err)
	}
	hash, err := r.hash()
	if err == nil && !key.Verify(signsReceipt, hash, signature) {
		err = fmt.Errorf("%w: it was changed after %s had signed it", session.ErrSignature, key)
	}
	return key, err
}

// check returns an error if fields contradict each other.
func (r *Receipt) check() error {
	switch n := len(r.IDs); {
	case r.Object != Object || r.Version < version || r.Version > versionOfStates:
		return fmt.Errorf("found a %.40q of version %d, want a %q of version %d to %d", r.Object, r.Version, Object,
			version, versionOfStates)
	case n == 0 || len(r.Logits) != n || len(r.Chain) != n:
		return fmt.Errorf("found %d ids, %d logits and %d links of the chain, want as many of each", n, len(r.Logits),
			len(r.Chain))
	case r.State != nil && (r.State.Position < 1 || r.State.Hash == ""):
		return fmt.Errorf("state: found %q at %d, want a hash and a position", r.State.Hash, r.State.Position)
	case len(r.Prompt) == 0:
		return errors.New("prompt: found nothing, want what was read")
	}
	for i, p := range r.Prompt {
		if p.Tokens < 1 || p.IDs != nil && len(p.IDs) != p.Tokens {
			return fmt.Errorf("prompt: found %d ids of %d tokens in part %d", len(p.IDs), p.Tokens, i)
		}
	}
	return nil
}
