package session

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// decoding is a file being read. Its checksum has been verified.
type decoding struct {
	header
	file  *checkpoint.File
	model *model.Model
}

// parse checks everything in a file except whether it fits the model.
func parse(data, key []byte) (*decoding, error) {
	if isSealed(data) {
		var err error
		if data, err = unseal(data, key); err != nil {
			return nil, err
		}
	}
	if len(data) > 8 && data[8] != '{' {
		return nil, fmt.Errorf("%w: it does not begin as the file of a session does", ErrDamaged)
	}
	if err := checkSum(data); err != nil {
		return nil, err
	}
	file, err := checkpoint.ParseSafetensors(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	d := &decoding{file: file}
	return d, d.read(file.Metadata()[headerKey])
}

// read reads the header of the session.
func (h *header) read(text string) error {
	if text == "" {
		return fmt.Errorf("%w: found no %q in the metadata", ErrDamaged, headerKey)
	}
	if err := json.Unmarshal([]byte(text), h); err != nil {
		return fmt.Errorf("%w: %q: %w", ErrDamaged, headerKey, err)
	}
	if h.Version > fileVersion {
		return fmt.Errorf("%w: found version %d, want at most %d", ErrVersion, h.Version, fileVersion)
	}
	if len(h.Places) == 0 {
		return fmt.Errorf("%w: found no place of a state", ErrDamaged)
	}
	return nil
}

// place returns the snapshot at place i.
func (d *decoding) place(i int) (*Snapshot, error) {
	n := &Snapshot{Position: d.Places[i], State: d.model.NewState()}
	prefix, there := fmt.Sprint(i, ".", statePrefix), map[string]bool{}
	var layers [][]string // tensor names, grouped by layer
	of := map[string]int{}
	for _, full := range d.file.Names() {
		name, ok := strings.CutPrefix(full, prefix)
		if !ok {
			continue
		}
		there[name] = true
		parts := strings.SplitN(name, ".", 3)
		layer := strings.Join(parts[:min(2, len(parts))], ".")
		if _, there := of[layer]; !there {
			of[layer], layers = len(layers), append(layers, nil)
		}
		layers[of[layer]] = append(layers[of[layer]], name)
	}
	err := each(len(layers), func(layer int) error {
		var values []float32 // of one tensor
		for _, name := range layers[layer] {
			var err error
			if values, err = d.restore(n.State, i, name, values); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	missing := ""
	for _, name := range n.State.Names() {
		if !there[name] {
			missing = name
		}
		delete(there, name)
	}
	if missing != "" || len(there) > 0 || n.State.Position != n.Position {
		return nil, fmt.Errorf("found a state at %d of %d tensors too many, without %q, want one at %d",
			n.State.Position, len(there), missing, n.Position)
	}
	if x, ok := d.file.Tensor(fmt.Sprint(i, ".", logitsName)); ok {
		if n.Logits, err = x.Float32(); err != nil {
			return nil, err
		}
		if len(n.Logits) != d.model.Config.VocabSize {
			return nil, fmt.Errorf("found %d logits, want %d", len(n.Logits), d.model.Config.VocabSize)
		}
	}
	return n, nil
}

// restore sets the named tensor of the state at a place. It returns values, grown if necessary, as a buffer for the
// next call.
func (d *decoding) restore(s *model.State, place int, name string, values []float32) ([]float32, error) {
	full := fmt.Sprint(place, ".", statePrefix, name)
	x, _ := d.file.Tensor(full)
	var factors []float32
	if x.DType == checkpoint.I8 {
		scales, ok := d.file.Tensor(fmt.Sprint(place, ".", scalePrefix, name))
		if !ok {
			return nil, fmt.Errorf("found integers in %q without factors", full)
		}
		var err error
		if factors, err = scales.Float32(); err != nil {
			return nil, err
		}
		if q, ok := storedIntegers(x, factors); ok {
			if done, err := s.RestoreIntegers(name, x.Shape, q, factors); done || err != nil {
				return values, err
			}
		}
	}
	values = slices.Grow(values[:0], x.Elements())[:x.Elements()]
	err := x.ReadFloat32(values)
	if err == nil && x.DType == checkpoint.I8 {
		err = widen(full, values, x.Shape, factors)
	}
	if err == nil {
		err = s.Restore(name, x.Shape, values)
	}
	return values, err
}

// damaged wraps an error in a file that was written incorrectly: its checksum is right.
func damaged(err error) error {
	if err == nil {
		return nil
	}
	return brief.Error(fmt.Errorf("%w: %w", ErrDamaged, err))
}

// DecodeSnapshot reads a snapshot that Snapshot.Encode wrote for a model with this identity.
func DecodeSnapshot(data []byte, m *model.Model, id Identity, key []byte) (*Snapshot, error) {
	d, err := parse(data, key)
	if err != nil {
		return nil, err
	}
	if err := id.Check(d.Identity, m); err != nil {
		return nil, err
	}
	d.model = m
	n, err := d.place(0)
	return n, damaged(err)
}

// Decode reads a session that Session.Encode wrote.
func Decode(data []byte, m *model.Model, tok tokenizer.Tokenizer, o Options, key []byte) (*Session, error) {
	d, err := parse(data, key)
	if err != nil {
		return nil, err
	}
	o.Chunk = d.Identity.Chunk
	s := open(m, tok, o)
	if err := s.identity().Check(d.Identity, m); err != nil {
		return nil, err
	}
	d.model = m
	if err := d.session(s); err != nil {
		return nil, damaged(err)
	}
	return s, nil
}

// session sets s to the session in the file.
func (d *decoding) session(s *Session) error {
	s.id, s.origin = d.ID, d.Origin
	ids, err := d.ids()
	if err != nil {
		return err
	}
	if err := s.check(ids); err != nil {
		return err
	}
	if found := TextHash(ids); d.Text != "" && d.Text != found {
		return fmt.Errorf("found ids with the hash %s, want %s", found, d.Text)
	}
	s.text.ids, s.text.spans = ids, d.Spans
	if err := s.text.check(); err != nil {
		return err
	}
	probs, ok := d.file.Tensor(logProbsName)
	if !ok || probs.Elements() != len(ids) {
		return fmt.Errorf("found no %q of %d ids", logProbsName, len(ids))
	}
	if s.logProbs, err = probs.Float32(); err != nil {
		return err
	}
	for name, at := range d.Names {
		if at < 0 || at > len(ids) {
			return fmt.Errorf("found the mark %q at %d, want at most %d", name, at, len(ids))
		}
		s.names[name] = at
	}
	for i, at := range d.Places {
		if !s.text.isCut(at) {
			return fmt.Errorf("found a state at %d, which is not at a cut of the text", at)
		}
		n, err := d.place(i)
		if err != nil {
			return err
		}
		if i == 0 {
			s.at = n
		} else if len(s.marks) > 0 && s.marks[len(s.marks)-1].Position >= at {
			return fmt.Errorf("found a mark at %d after one at %d", at, s.marks[len(s.marks)-1].Position)
		} else {
			s.marks = append(s.marks, n)
		}
	}
	s.mark()
	if d.Reply == nil {
		return nil
	}
	o := &d.Reply.Options
	o.EndIDs, o.StopIDs, o.MinTokens, o.LogitBias = d.Reply.EndIDs, d.Reply.StopIDs, d.Reply.Least, d.Reply.Bias
	return s.goOn(*o, d.Reply.State)
}

// ids returns the ids of the text.
func (d *decoding) ids() ([]int32, error) {
	x, ok := d.file.Tensor(idsName)
	if !ok || x.DType != checkpoint.I32 {
		return nil, fmt.Errorf("found no %q of type %s", idsName, checkpoint.I32)
	}
	wide, err := x.Int64()
	ids := make([]int32, len(wide))
	for i, id := range wide {
		ids[i] = int32(id)
	}
	return ids, err
}

// Load reads a file that Save wrote for a model with the same weights, precision and tokenizer. The session continues
// with the same bits as the saved one. Load returns ErrDamaged if any bit of the file is damaged, and one of the errors
// declared with it if the file does not fit.
func Load(path string, m *model.Model, tok tokenizer.Tokenizer, o Options, key []byte) (*Session, error) {
	var s *Session
	err := withFile(path, func(data []byte) (err error) {
		s, err = Decode(data, m, tok, o, key)
		return err
	})
	return s, err
}

// Info describes the file of a session.
type Info struct {
	Name     string         `json:"name,omitempty"` // in a Folder
	ID       string         `json:"id"`
	Position int            `json:"position"` // tokens of the text
	Drawn    int            `json:"drawn"`    // number of these that were sampled
	Marks    map[string]int `json:"marks,omitempty"`
	States   []int          `json:"states"` // positions with a saved state
	Origin   Origin         `json:"origin,omitzero"`
	Reply    bool           `json:"reply,omitempty"` // whether a reply was interrupted
	Rounded  bool           `json:"rounded,omitempty"`
	Identity Identity       `json:"identity"`
	Text     string         `json:"text_sha256,omitempty"` // see TextHash
	Bytes    int64          `json:"bytes"`
	Saved    time.Time      `json:"saved"`
}

// Inspect checks the file of a session and returns its description.
func Inspect(path string, key []byte) (info Info, err error) {
	stat, err := os.Stat(path)
	if err != nil {
		return info, err
	}
	err = withFile(path, func(data []byte) error {
		d, err := parse(data, key)
		if err != nil {
			return err
		}
		info = d.info()
		info.Bytes, info.Saved = int64(len(data)), stat.ModTime()
		return nil
	})
	return info, err
}

// info describes the session, without the size of its file.
func (h *header) info() Info {
	info := Info{
		ID: h.ID, Marks: h.Names, States: slices.Sorted(slices.Values(h.Places)), Origin: h.Origin,
		Reply: h.Reply != nil, Rounded: h.Rounded, Identity: h.Identity, Text: h.Text,
	}
	for _, s := range h.Spans {
		if s.Drawn {
			info.Drawn += s.End - info.Position
		}
		info.Position = s.End
	}
	return info
}

// rewrite writes the session in a file to w, after change has changed its header.
func rewrite(w io.Writer, path string, o FileOptions, change func(*header)) error {
	return withFile(path, func(data []byte) error {
		d, err := parse(data, o.Key)
		if err != nil {
			return err
		}
		e := encoding{round: d.Rounded}
		for _, name := range d.file.Names() {
			if x, _ := d.file.Tensor(name); name != sumName && name != signatureName {
				e.tensors = append(e.tensors, *x)
			}
		}
		change(&d.header)
		_, err = e.write(w, d.header, o)
		return err
	})
}

// fork turns the header into that of a fork.
func (h *header) fork() {
	end := 0
	if n := len(h.Spans); n > 0 {
		end = h.Spans[n-1].End
	}
	h.ID, h.Origin = rand.Text(), Origin{h.ID, end}
}

// withFile calls use with the contents of a file, which are valid during the call.
func withFile(path string, use func(data []byte) error) error {
	f, info, err := disk.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if info.Size() == 0 {
		return fmt.Errorf("session %s: %w: the file is empty", path, ErrDamaged)
	}
	mapped, err := disk.Map(f, int(info.Size()))
	if err != nil {
		return fmt.Errorf("session %s: %w", path, err)
	}
	defer mapped.Close()
	if fault := disk.Guard(func() { err = use(mapped.Data) }); fault != nil {
		err = fmt.Errorf("%w: %w", ErrDamaged, fault)
	}
	if err != nil {
		return fmt.Errorf("session %s: %w", path, err)
	}
	return nil
}
