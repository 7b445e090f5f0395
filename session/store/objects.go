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

// An object in a bucket stores a mark and the log-probabilities of its text. Its name contains all data needed to find
// it and to choose which objects to evict. So no index has to be stored and kept consistent. The name is
//
//	IDENTITY/KK/KEY-POSITION-SIZE-BEFORE-CLOCK
//
// IDENTITY of the model and of this format, 16 hexadecimal digits; versions do not see each other's marks KK the first
// two digits of KEY KEY the key of the state, 64 digits POSITION of the mark SIZE of the object in bytes BEFORE the
// first 16 digits of the key of the mark before, zeros if there is none CLOCK the clock of the bucket when it was
// written: see index.weigh
//
// The content, all numbers little-endian:
//
//	8 bytes   magic
//	32 bytes  the key
//	8 bytes   the number of log-probabilities, each of 4 bytes, for the first ids of the text, NaN if unknown
//	4 bytes   CRC-32C of all bytes before
//	...       the snapshot, as session.Snapshot.Encode writes it, with its own checksum
//
// If the store has a key, session.Seal encrypts the content.
const magic = "hippomk1"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// idLen is the number of hexadecimal digits of an identifier for uses in which a collision does no harm.
const idLen = 16

// object is the parsed name of an object.
type object struct {
	model    string // IDENTITY in the name
	key      key
	position int
	size     int64
	before   string
	clock    int64 // the clock when this process last used it, or else written
	written  int64 // the clock when it was written, from its name
	added    int   // value of index.changes when it was added
}

func (o *object) name() string {
	k := hex.EncodeToString(o.key[:])
	return fmt.Sprintf("%s/%s/%s-%d-%d-%s-%d", o.model, k[:2], k, o.position, o.size, o.before, o.written)
}

// parseName parses the name of an object. ok is false for other names.
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

// encode encodes a mark as an object.
func (s *Store) encode(k key, m *session.Snapshot, logp []float32) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 0, len(magic)+len(k)+12+4*len(logp)+m.Size()+1<<12))
	b.WriteString(magic)
	b.Write(k[:])
	b.Write(binary.LittleEndian.AppendUint64(b.AvailableBuffer(), uint64(len(logp))))
	for _, p := range logp {
		b.Write(binary.LittleEndian.AppendUint32(b.AvailableBuffer(), math.Float32bits(p)))
	}
	b.Write(binary.LittleEndian.AppendUint32(b.AvailableBuffer(), crc32.Checksum(b.Bytes(), castagnoli)))
	if err := m.Encode(b, s.o.Identity, session.FileOptions{}); err != nil {
		return nil, err
	}
	return s.sealed(b.Bytes())
}

// sealed encrypts data, if there is a key.
func (s *Store) sealed(data []byte) ([]byte, error) {
	if s.o.Key == nil {
		return data, nil
	}
	var sealed bytes.Buffer
	w, err := session.Seal(&sealed, s.o.Key)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	return sealed.Bytes(), err
}

// decode decodes an object. It returns session.ErrDamaged for damaged data.
func (s *Store) decode(o *object, data []byte) (*session.Snapshot, []float32, error) {
	damaged := func(format string, args ...any) (*session.Snapshot, []float32, error) {
		return nil, nil, fmt.Errorf("%w: %s", session.ErrDamaged, fmt.Sprintf(format, args...))
	}
	if int64(len(data)) != o.size {
		return damaged("found %d bytes, want %d", len(data), o.size)
	}
	if s.o.Key != nil {
		var err error
		if data, err = session.Unseal(data, s.o.Key); err != nil {
			return nil, nil, err
		}
	}
	const head = len(magic) + len(key{}) + 8
	if len(data) < head || string(data[:len(magic)]) != magic {
		return damaged("found something else than a mark")
	}
	if k := key(data[len(magic):]); k != o.key {
		return damaged("found the mark %x", k)
	}
	n := binary.LittleEndian.Uint64(data[head-8:])
	if n > uint64(o.position) || n > uint64(len(data)-head-4)/4 {
		return damaged("found %d log-probabilities, want at most %d", n, o.position)
	}
	all := head + 4*int(n)
	if crc32.Checksum(data[:all], castagnoli) != binary.LittleEndian.Uint32(data[all:]) {
		return damaged("found another checksum of the log-probabilities")
	}
	logp := make([]float32, n)
	for i := range logp {
		logp[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[head+4*i:]))
	}
	m, err := session.DecodeSnapshot(data[all+4:], s.o.Model, s.o.Identity, nil)
	if err == nil && m.Position != o.position {
		return damaged("found position %d, want %d", m.Position, o.position)
	}
	return m, logp, err
}

// aside is the folder of quarantined objects, and mostAside the maximum number of them.
const (
	aside     = "aside/"
	mostAside = 16
)

// load reads the mark of an object. It quarantines and reports a damaged object.
func (s *Store) load(ctx context.Context, o *object) (*session.Snapshot, []float32) {
	name := o.name()
	data, err := s.o.Bucket.Get(ctx, name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) { // another process evicted it
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
	if errors.Is(err, session.ErrDamaged) || errors.Is(err, session.ErrKey) { // names depend on the key
		s.setAside(ctx, name, data, err)
	} else { // a newer hippo may have written it
		s.tell(s.named(fmt.Errorf("%s: %w", name, err)))
	}
	return nil, nil
}

// setAside moves a damaged object to the folder aside, or removes it if the folder is full, and reports it.
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
	s.tell(s.named(fmt.Errorf("%s %s: %w", name, what, cause)))
}

// named adds the name of the bucket to an error.
func (s *Store) named(err error) error { return fmt.Errorf("store %s: %w", s.o.Bucket, err) }

// tell passes an error to Options.Report.
func (s *Store) tell(err error) {
	if s.o.Report != nil {
		s.o.Report(err)
	}
}
