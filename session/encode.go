package session

import (
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

// A saved session is a file of safetensors. Its metadata has a JSON object under headerKey, see header. Its tensors are
//
//	ids              the ids of the text, I32
//	logprobs         their log-probabilities, F32, NaN for those that are not known
//	I.state.NAME     the state at place I of the header, with the names of model.State
//	I.scale.NAME     the factors of the rows of a state whose elements are I8, F32
//	I.logits         the logits there
//	checksum         of all bytes before it
//
// A saved snapshot has one place and no text. What is exact in bfloat16 or in int8 is saved as that, such as the keys
// and values of a model that keeps them so. A file has the least version that tells its reader of what is in it.
const (
	headerKey         = "hippo session"
	fileVersion       = 3 // the fingerprint of a model with weights that are integers starts with model.OfIntegers
	versionOfIntegers = 2 // states in int8
	versionOfFloats   = 1

	idsName      = "ids"
	logProbsName = "logprobs"
	logitsName   = "logits"
	statePrefix  = "state."
	scalePrefix  = "scale."
	sumName      = "checksum"
)

// header is what a file says of itself.
type header struct {
	Version  int      `json:"version"`
	Identity Identity `json:"identity"`
	Rounded  bool     `json:"rounded,omitempty"` // states are rounded to bfloat16
	Places   []int    `json:"places"`            // positions: first where the model stands, then marks

	ID     string         `json:"id,omitempty"`
	Origin Origin         `json:"origin,omitzero"`
	Spans  []span         `json:"spans,omitempty"`
	Names  map[string]int `json:"names,omitempty"`
	Reply  *savedReply    `json:"reply,omitempty"` // one that was interrupted
}

type savedReply struct {
	Options generate.Options     `json:"options"`
	EndIDs  []int32              `json:"end_ids,omitempty"`
	Bias    map[int32]float32    `json:"logit_bias,omitempty"`
	State   generate.WriterState `json:"state"`
}

// FileOptions say how something is saved. The zero value saves states exactly, in the open, without marks.
type FileOptions struct {
	// Round rounds states to bfloat16, which takes half the space. Results that continue from there are near to what
	// would have been, and no longer the same.
	Round bool
	// Key, at least 16 random bytes, encrypts the file (see sealMagic). Load wants the same.
	Key []byte
	// Marks is how many bytes of marks are saved, the most useful ones, so that Rewind costs less after Load.
	Marks int
}

// minRounded is the fewest values of a tensor that are rounded: counters are shorter.
const minRounded = 64

// encoding is a file that is being made.
type encoding struct {
	tensors []checkpoint.Tensor
	round   bool
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
	if n.Logits != nil {
		name := fmt.Sprint(place, ".", logitsName)
		e.tensors = append(e.tensors, checkpoint.NewTensor(name, []int{len(n.Logits)}, n.Logits))
	}
}

// addIntegers adds what is held as integers, as integers would find it. It is written from where it lies.
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

// floats is a tensor of values: in bfloat16 if they are to be rounded, or are exact in it.
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
		b += 0x7fff + b>>16&1 // to the nearest, half-way to the even one
		data[2*i], data[2*i+1] = byte(b>>16), byte(b>>24)
	}
	return checkpoint.Tensor{Name: name, DType: checkpoint.BF16, Shape: shape, Data: data}
}

// write writes the file.
func (e *encoding) write(w io.Writer, h header, key []byte) error {
	h.Version, h.Rounded = versionOfFloats, e.round
	switch {
	case strings.HasPrefix(h.Identity.Model, model.OfIntegers):
		h.Version = fileVersion
	case slices.ContainsFunc(e.tensors, func(x checkpoint.Tensor) bool { return x.DType == checkpoint.I8 }):
		h.Version = versionOfIntegers
	}
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	end := func() error { return nil }
	if key != nil {
		s, err := newSealing(w, key)
		if err != nil {
			return err
		}
		w, end = s, s.Close
	}
	s := &summing{w: w}
	e.tensors = append(e.tensors, checkpoint.NewTensor(sumName, []int{sumLen}, make([]uint8, sumLen)))
	if err := checkpoint.WriteSafetensors(s, e.tensors, map[string]string{headerKey: string(text)}); err != nil {
		return err
	}
	if err := s.close(); err != nil {
		return err
	}
	return end()
}

// Encode writes the snapshot for Decode.
func (n *Snapshot) Encode(w io.Writer, id Identity, o FileOptions) error {
	e := encoding{round: o.Round}
	e.add(0, n)
	return e.write(w, header{Identity: id, Places: []int{n.Position}}, o.Key)
}

// Encode writes the session for Decode, also in the middle of a reply.
func (s *Session) Encode(w io.Writer, o FileOptions) error {
	at := s.Snapshot()
	e := encoding{round: o.Round}
	e.tensors = append(e.tensors,
		checkpoint.NewTensor(idsName, []int{len(s.text.ids)}, s.text.ids),
		checkpoint.NewTensor(logProbsName, []int{len(s.logProbs)}, s.logProbs))
	e.add(0, at)
	h := header{
		Identity: s.identity(), Places: []int{at.Position}, ID: s.id, Origin: s.origin,
		Spans: s.text.spans, Names: s.names,
	}
	for _, m := range s.worth(o.Marks) {
		e.add(len(h.Places), m)
		h.Places = append(h.Places, m.Position)
	}
	if s.writer != nil {
		h.Reply = &savedReply{s.reply, s.reply.EndIDs, s.reply.LogitBias, s.writer.State()}
	}
	return e.write(w, h, o.Key)
}

// identity is for whom the session is of use when it is saved. Its chunk is its own: whoever loads it keeps to it.
func (s *Session) identity() Identity {
	id := Identify(s.model, s.tok)
	id.Chunk = s.text.chunk
	return id
}

// worth are the marks that save the most, of up to so many bytes, besides the one where the model stands.
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

// Save writes the session to a file, in place of the one before: a crash at any moment leaves the old one or the
// whole new one. After an error the session is as it was.
func (s *Session) Save(path string, o FileOptions) error {
	err := disk.WriteFile(path, func(w io.Writer) error { return s.Encode(w, o) })
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	return nil
}
