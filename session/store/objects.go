package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/session"
)

// An object of a bucket is a mark with what its model has answered so far. Its name says all that is needed to find it
// and to choose what goes when there is no more room, so that no list of objects has to be kept, or kept right, beside
// them:
//
//	IDENTITY/KK/KEY-POSITION-SIZE-BEFORE-CLOCK
//
// IDENTITY  of the model and of this format, 16 hexadecimal digits: versions of one bucket do not see each other's marks
// KK        the first two digits of KEY
// KEY       the key of the state, 64 digits
// POSITION  of the mark
// SIZE      of the object in bytes
// BEFORE    the first 16 digits of the key of the mark before, zeros if there is none
// CLOCK     the clock of the bucket at its writing: see objects.worth
//
// The content, all numbers little-endian:
//
//	8 bytes   magic
//	32 bytes  the key
//	8 bytes   the number of log-probabilities, each 4 bytes: those of the first ids of the text, NaN where unknown
//	...       the snapshot
//	4 bytes   CRC-32C of all before
const magic = "hippomk1"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// idLen is how many digits of a hash tell marks apart where no harm comes from a mistake.
const idLen = 16

// object is what the name of an object says.
type object struct {
	model    string // its IDENTITY
	key      key
	position int
	size     int64
	before   string
	clock    int64 // at its writing, or when this process used it last
	written  int64 // the clock in its name
	added    int   // which change of the index has brought it
}

func (o *object) name() string {
	k := hex.EncodeToString(o.key[:])
	return fmt.Sprintf("%s/%s/%s-%d-%d-%s-%d", o.model, k[:2], k, o.position, o.size, o.before, o.written)
}

// parseName reads the name of an object, or says that it is none.
func parseName(name string) (o *object, ok bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 3 {
		return nil, false
	}
	fields := strings.Split(parts[2], "-")
	if len(fields) != 5 {
		return nil, false
	}
	o = &object{model: parts[0], before: fields[3]}
	k, err := hex.DecodeString(fields[0])
	copy(o.key[:], k)
	var errs [3]error
	o.position, errs[0] = strconv.Atoi(fields[1])
	o.size, errs[1] = strconv.ParseInt(fields[2], 10, 64)
	o.written, errs[2] = strconv.ParseInt(fields[4], 10, 64)
	o.clock = o.written
	if err = errors.Join(err, errors.Join(errs[:]...)); err != nil {
		return nil, false
	}
	return o, o.position > 0 && o.size > 0 && o.clock >= 0 && o.clock < math.MaxInt64/2 && o.name() == name
}

// encode makes an object of a mark.
func (s *Store) encode(k key, m *session.Snapshot, logp []float32) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 0, len(magic)+len(k)+12+4*len(logp)+m.State.Size()+4*len(m.Logits)+1<<12))
	b.WriteString(magic)
	b.Write(k[:])
	b.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(logp))))
	for _, p := range logp {
		b.Write(binary.LittleEndian.AppendUint32(b.AvailableBuffer(), math.Float32bits(p)))
	}
	if err := s.o.Codec.Encode(b, m); err != nil {
		return nil, err
	}
	return binary.LittleEndian.AppendUint32(b.Bytes(), crc32.Checksum(b.Bytes(), castagnoli)), nil
}

// decode reads an object.
func (s *Store) decode(o *object, data []byte) (*session.Snapshot, []float32, error) {
	const head = len(magic) + len(key{}) + 8
	if int64(len(data)) != o.size || len(data) < head+4 {
		return nil, nil, fmt.Errorf("it has %d bytes, want %d", len(data), o.size)
	}
	data, sum := data[:len(data)-4], data[len(data)-4:]
	if crc32.Checksum(data, castagnoli) != binary.LittleEndian.Uint32(sum) {
		return nil, nil, errors.New("its checksum is wrong")
	}
	if string(data[:len(magic)]) != magic {
		return nil, nil, errors.New("it is no mark")
	}
	if !bytes.Equal(data[len(magic):][:len(key{})], o.key[:]) {
		return nil, nil, errors.New("it is another mark than its name says")
	}
	n := binary.LittleEndian.Uint64(data[head-8:])
	data = data[head:]
	if n > uint64(len(data)/4) || n > uint64(o.position) {
		return nil, nil, fmt.Errorf("it has %d log-probabilities, want at most %d", n, o.position)
	}
	logp := make([]float32, n)
	for i := range logp {
		logp[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	m, err := s.o.Codec.Decode(data[4*n:])
	if err == nil && m.Position != o.position {
		err = fmt.Errorf("it is of position %d, want %d", m.Position, o.position)
	}
	return m, logp, err
}

// aside is the folder of objects that are not what they should be, and how many are kept to be looked at.
const (
	aside     = "aside/"
	mostAside = 16
)

// load reads the mark of an object. One that is damaged is set aside, and told.
func (s *Store) load(ctx context.Context, o *object) (*session.Snapshot, []float32) {
	name := o.name()
	data, err := s.o.Bucket.Get(ctx, name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) { // another process had no more room for it
			s.tell(s.named(fmt.Errorf("%s: %w", name, err)))
		}
		if ctx.Err() == nil {
			s.forget(o)
		}
		return nil, nil
	}
	m, logp, err := s.decode(o, data)
	if err == nil {
		return m, logp
	}
	s.forget(o)
	s.setAside(ctx, name, data, err)
	return nil, nil
}

// setAside moves a damaged object out of the way.
func (s *Store) setAside(ctx context.Context, name string, data []byte, cause error) {
	s.mu.Lock()
	keep := s.index.asides < mostAside
	if keep {
		s.index.asides++
	}
	s.mu.Unlock()
	what := "is removed"
	if keep {
		what = "is set aside as " + aside + name
		if err := s.o.Bucket.Put(ctx, aside+name, data); err != nil {
			what = fmt.Sprintf("is removed, as it could not be set aside: %v", err)
		}
	}
	if err := s.o.Bucket.Delete(ctx, name); err != nil {
		what = fmt.Sprintf("cannot be removed: %v", err)
	}
	s.tell(s.named(fmt.Errorf("%s is damaged and %s: %w", name, what, cause)))
}

// named says in an error of the bucket which store it is.
func (s *Store) named(err error) error { return fmt.Errorf("store %s: %w", s.o.Bucket, err) }

// tell tells whoever wants to know about an error in spite of which the store goes on.
func (s *Store) tell(err error) {
	if s.o.Report != nil {
		s.o.Report(err)
	}
}
