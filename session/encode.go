package session

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
)

// A saved session is a safetensors file. Its metadata holds a JSON object under headerKey: see header. Its tensors are
//
//	ids              the ids of the text, I32
//	logprobs         their log-probabilities, F32, NaN if unknown
//	I.state.NAME     the state at place I of the header, with the names of model.State
//	I.scale.NAME     the factors of the rows of a state whose elements are I8, F32
//	I.logits         the logits there
//	signature        see signatureName; only in a signed file
//	checksum         of all bytes before it
//
// A saved snapshot has one place and no text. A tensor whose values are exact in bfloat16 or int8 is saved in that
// type, for example the keys and values of a model that stores them in int8. A file has the lowest version whose
// readers understand it.
const (
	headerKey         = "hippo session"
	fileVersion       = 4 // the identity contains the precision of states, bf16
	versionOfWeights  = 3 // the weights are integers; the fingerprint starts with model.OfIntegers
	versionOfIntegers = 2 // states in int8
	versionOfFloats   = 1

	idsName      = "ids"
	logProbsName = "logprobs"
	logitsName   = "logits"
	statePrefix  = "state."
	scalePrefix  = "scale."
	sumName      = "checksum"
)

// header is the metadata of a file.
type header struct {
	Version  int      `json:"version"`
	Identity Identity `json:"identity"`
	Rounded  bool     `json:"rounded,omitempty"` // states are rounded to bfloat16
	Places   []int    `json:"places"`            // positions of the states: first the model's, then those of the marks

	ID     string         `json:"id,omitempty"`
	Origin Origin         `json:"origin,omitzero"`
	Spans  []span         `json:"spans,omitempty"`
	Names  map[string]int `json:"names,omitempty"`
	Reply  *savedReply    `json:"reply,omitempty"` // an interrupted reply, or nil
	Text   string         `json:"text_sha256,omitempty"`
}

// TextHash returns the SHA-256, in hexadecimal digits, of the ids of a text, each 4 bytes, little-endian, as in the
// tensor ids.
func TextHash(ids []int32) string {
	h := sha256.Sum256(checkpoint.NewTensor("", nil, ids).Data)
	return hex.EncodeToString(h[:])
}

type savedReply struct {
	Options generate.Options     `json:"options"`
	EndIDs  []int32              `json:"end_ids,omitempty"`
	StopIDs []int32              `json:"stop_ids,omitempty"`
	Least   int                  `json:"min_tokens,omitempty"`
	Bias    map[int32]float32    `json:"logit_bias,omitempty"`
	State   generate.WriterState `json:"state"`
}

// FileOptions configure how a session is saved. The zero value saves exact states, unencrypted, without marks.
type FileOptions struct {
	// Round rounds states to bfloat16, which halves the size of the file. Results computed from the rounded states are
	// close to the exact ones, but not the same.
	Round bool
	// Key, at least 16 random bytes, encrypts the file (see sealMagic). Load needs the same key.
	Key []byte
	// Marks is the maximum size in bytes of the saved marks. The marks that save the most reading are kept. They make
	// Rewind cheaper after Load.
	Marks int
	// Signer, unless it is nil, signs the file.
	Signer *Signer
}

// minRounded is the minimum number of elements of a tensor that is rounded. Counters are smaller.
const minRounded = 64

// encoding is a file being written.
type encoding struct {
	tensors []checkpoint.Tensor
	round   bool
	err     error // of a device from which a state could not be read
}

// add adds a place. The snapshot must not change until the file is written.
func (e *encoding) add(place int, n *Snapshot) {
	n.State.Parts(func(p model.StatePart) {
		full, scale := fmt.Sprint(place, ".", statePrefix, p.Name), fmt.Sprint(place, ".", scalePrefix, p.Name)
		if e.addIntegers(full, scale, p) {
			return
		}
		shape, values := p.Values()
		if q, scales, ok := integers(shape, values); ok {
			e.tensors = append(e.tensors, checkpoint.NewTensor(full, shape, q),
				checkpoint.NewTensor(scale, shape[:len(shape)-1], scales))
			return
		}
		e.tensors = append(e.tensors, floats(full, shape, values, e.round && len(values) >= minRounded))
	})
	e.err = cmp.Or(e.err, n.State.Failure())
	if n.Logits != nil {
		name := fmt.Sprint(place, ".", logitsName)
		e.tensors = append(e.tensors, checkpoint.NewTensor(name, []int{len(n.Logits)}, n.Logits))
	}
}

// addIntegers adds a tensor that the model stores as integers, without copying it. It returns false, and adds nothing,
// for other tensors and for those too small to be saved as integers.
func (e *encoding) addIntegers(full, scale string, p model.StatePart) bool {
	x := p.Integers
	if x == nil {
		return false
	}
	n, k := 1, x.Shape[len(x.Shape)-1]
	for _, m := range x.Shape {
		n *= m
	}
	if n < minRounded || k < leastRow {
		return false
	}
	e.tensors = append(e.tensors,
		checkpoint.InPieces(full, checkpoint.I8, x.Shape, func(yield func([]byte) bool) {
			for q := range x.Rows() {
				if !yield(checkpoint.NewTensor("", nil, q).Data) {
					return
				}
			}
		}),
		checkpoint.InPieces(scale, checkpoint.F32, x.Shape[:len(x.Shape)-1], func(yield func([]byte) bool) {
			for _, factors := range x.Rows() {
				if !yield(checkpoint.NewTensor("", nil, factors).Data) {
					return
				}
			}
		}))
	return true
}

// floats returns a tensor of values, in bfloat16 if round is set or if all values are exact in bfloat16.
func floats(name string, shape []int, values []float32, round bool) checkpoint.Tensor {
	exact := true
	for _, v := range values {
		if math.Float32bits(v)&0xffff != 0 {
			exact = false
			break
		}
	}
	if !exact && !round {
		return checkpoint.NewTensor(name, shape, values)
	}
	data := make([]byte, 2*len(values))
	for i, v := range values {
		b := math.Float32bits(v)
		b += 0x7fff + b>>16&1 // round to nearest, ties to even
		data[2*i], data[2*i+1] = byte(b>>16), byte(b>>24)
	}
	return checkpoint.Tensor{Name: name, DType: checkpoint.BF16, Shape: shape, Data: data}
}

// write writes the file. It uses only the key and the signer of the options. If w has a method Grow, write calls it
// once. The content hash is zero unless the file is signed.
func (e *encoding) write(w io.Writer, h header, o FileOptions) (hash [32]byte, err error) {
	if e.err != nil {
		return hash, e.err
	}
	h.Version, h.Rounded = versionOfFloats, e.round
	switch {
	case h.Identity.States != "":
		h.Version = fileVersion
	case strings.HasPrefix(h.Identity.Model, model.OfIntegers):
		h.Version = versionOfWeights
	case slices.ContainsFunc(e.tensors, func(x checkpoint.Tensor) bool { return x.DType == checkpoint.I8 }):
		h.Version = versionOfIntegers
	}
	text, err := json.Marshal(h)
	if err != nil {
		return hash, err
	}
	if g, ok := w.(interface{ Grow(n int) }); ok {
		g.Grow(e.size() + 2*len(text)) // its quotes are escaped
	}
	end := func() error { return nil }
	if o.Key != nil {
		s, err := newSealing(w, o.Key)
		if err != nil {
			return hash, err
		}
		w, end = s, s.Close
	}
	s := &summing{w: w, signer: o.Signer, bytes: sha256.New()}
	if o.Signer != nil {
		room := make([]uint8, signatureLen)
		e.tensors = append(e.tensors, checkpoint.NewTensor(signatureName, []int{signatureLen}, room))
	}
	e.tensors = append(e.tensors, checkpoint.NewTensor(sumName, []int{sumLen}, make([]uint8, sumLen)))
	if err := checkpoint.WriteSafetensors(s, e.tensors, map[string]string{headerKey: string(text)}); err != nil {
		return hash, err
	}
	if hash, err = s.close(); err != nil {
		return hash, err
	}
	return hash, end()
}

// size returns an upper estimate of the size of the file without its header.
func (e *encoding) size() int {
	const described = 256 // bytes of a tensor in the list
	n := tailLen + described
	for i := range e.tensors {
		n += described + e.tensors[i].Elements()*e.tensors[i].DType.Size()
	}
	return n
}

// Encode writes the snapshot for Decode.
func (n *Snapshot) Encode(w io.Writer, id Identity, o FileOptions) error {
	e := encoding{round: o.Round}
	e.add(0, n)
	_, err := e.write(w, header{Identity: id, Places: []int{n.Position}}, o)
	return err
}

// Encode writes the session for Decode, even during a reply.
func (s *Session) Encode(w io.Writer, o FileOptions) error {
	e, h := s.encoding(o)
	_, err := e.write(w, h, o)
	return err
}

// Signed returns the file that Encode writes, and the result of CheckBytes for it. The options must have a signer and
// no key.
func (s *Session) Signed(o FileOptions) (file []byte, x Checked, err error) {
	e, h := s.encoding(o)
	var b bytes.Buffer
	hash, err := e.write(&b, h, o)
	if err == nil {
		x.Signer, err = o.Signer.Public()
	}
	x.Info, x.Hash = h.info(), hex.EncodeToString(hash[:])
	x.Bytes, x.Rounded = int64(b.Len()), o.Round
	return b.Bytes(), x, err
}

// encoding returns the tensors and the header, without the version, that Encode writes.
func (s *Session) encoding(o FileOptions) (*encoding, header) {
	at := s.Snapshot()
	e := &encoding{round: o.Round}
	e.tensors = append(e.tensors,
		checkpoint.NewTensor(idsName, []int{len(s.text.ids)}, s.text.ids),
		checkpoint.NewTensor(logProbsName, []int{len(s.logProbs)}, s.logProbs))
	e.add(0, at)
	h := header{
		Identity: s.identity(), Places: []int{at.Position}, ID: s.id, Origin: s.origin,
		Spans: s.text.spans, Names: s.names, Text: TextHash(s.text.ids),
	}
	for _, m := range s.worth(o.Marks) {
		e.add(len(h.Places), m)
		h.Places = append(h.Places, m.Position)
	}
	if s.writer != nil {
		h.Reply = &savedReply{
			s.reply, s.reply.EndIDs, s.reply.StopIDs, s.reply.MinTokens, s.reply.LogitBias, s.writer.State(),
		}
	}
	return e, h
}

// identity returns the identity that is saved: the model's, with the session's chunk, which Load keeps.
func (s *Session) identity() Identity {
	id := Identify(s.model, s.tok)
	id.Chunk = s.text.chunk
	return id
}

// worth returns the marks that save the most reading, up to a total size in bytes. The mark at the model's position is
// left out.
func (s *Session) worth(budget int) []*Snapshot {
	c := &Session{model: s.model, text: s.text, names: s.names}
	total := 0
	for _, m := range s.marks {
		if m.Position != s.read() {
			c.marks = append(c.marks, m)
			total += m.Size()
		}
	}
	for ; total > budget; total -= c.drop().Size() {
	}
	return c.marks
}

// Save replaces the file atomically: a crash leaves either the old file or the new one. An error leaves the session
// unchanged.
func (s *Session) Save(path string, o FileOptions) error {
	err := disk.WriteFile(path, func(w io.Writer) error { return s.Encode(w, o) })
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	return nil
}
