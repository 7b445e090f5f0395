package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/native"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/nn"
)

// identity is the fingerprint of a model, cached until a parameter changes.
type identity struct {
	mu      sync.Mutex
	version uint64 // sum of the versions of all parameters
	text    string // "" if not computed yet
	earlier string // fingerprint of earlier versions for a model with integer weights, or ""
}

// OfIntegers is the prefix of the fingerprint of a model with integer weights. Earlier versions computed a fingerprint
// without this prefix, from the values in float32.
const OfIntegers = "i-"

// Fingerprint returns a checksum of the configuration and of all weights as they are in memory: the rounded values of a
// packed model, and the values of an adapter. It protects against mistakes, not against deliberate collisions. It is
// computed once, in about the time that reading the weights takes.
func (m *Model) Fingerprint() string {
	text := m.identified()
	defer m.identity.mu.Unlock()
	if m.identity.text == "" {
		m.identity.text = m.sumBy(text, m.sumsOf, true)
	}
	return m.identity.text
}

// kernelsOfIntegers is the version of the arithmetic for products of integer weights, and for attention over integer
// keys and values. Before 1, attention multiplied keys and values as floats. Before 2, it divided each weight by the
// sum of the weights, instead of the result. Before 3, products of weights rounded each term before adding it.
const kernelsOfIntegers = 3

// kernelsOfTiles is the version of products in bf16 by tiles of AMX, which sum in an order of their own.
const kernelsOfTiles = 1

// Kernels returns the version of the arithmetic of m if an earlier version gave other bits, and 0 otherwise. A state
// that another version computed does not continue with the bits that m would have computed.
func (m *Model) Kernels() int {
	switch {
	case m.precision == engine.BF16 && m.Level() != native.Rounding(engine.Float32):
		return kernelsOfTiles
	case m.precision < engine.Int8:
		return 0
	}
	return kernelsOfIntegers
}

// HasFingerprint reports whether f is the Fingerprint of m in this or an earlier version.
func (m *Model) HasFingerprint(f string) bool {
	now := m.Fingerprint()
	if f == now || !strings.HasPrefix(now, OfIntegers) || strings.HasPrefix(f, OfIntegers) {
		return f == now
	}
	text := m.identified()
	defer m.identity.mu.Unlock()
	if m.identity.earlier == "" {
		m.identity.earlier = m.sum(text)
	}
	return f == m.identity.earlier
}

// identified locks the identity, clears it if a parameter has changed, and returns the text that the fingerprint covers
// in addition to the weights.
func (m *Model) identified() (text []byte) {
	version := uint64(0)
	add := func(_ string, p *nn.Param) { version += p.Version() }
	m.Params("", add)
	text = m.Config.JSON()
	if m.adapter != nil {
		m.adapter.Params("", add)
		text = append(text, m.adapter.fingerprint()...)
	}
	m.identity.mu.Lock()
	if m.identity.version != version {
		m.identity.version, m.identity.text, m.identity.earlier = version, "", ""
	}
	return text
}

// WeightsFingerprint returns the fingerprint of the weights alone, without the configuration and the adapter. It is
// computed on each call.
func (m *Model) WeightsFingerprint() string { return m.sum(nil) }

// Fingerprint returns the WeightsFingerprint of a model like m with the values of the file in float32, without holding
// all of them in memory at once. The file must fit m.
func (w Weights) Fingerprint(m *Model) (string, error) {
	l := w.compareAll(m)
	if len(l.problems) > 0 {
		return "", l.err()
	}
	at := map[*nn.Param]int{}
	for i, p := range l.params {
		at[p] = i
	}
	bad := make([]*badTensor, len(l.params))
	sum := m.sumBy(nil, func(p *nn.Param) []func() []byte {
		i, n := at[p], sumLen
		if p.Dims() == 2 {
			n = max(1, sumLen/max(1, p.Dim(1))) * p.Dim(1)
		}
		return []func() []byte{func() (sums []byte) {
			for from := 0; from < p.Len() && bad[i] == nil; from += n {
				withPiece(min(n, p.Len()-from), func(x []float32) {
					bad[i] = l.read(i, x, from)
					sums = addSum(sums, x)
				})
			}
			return sums
		}}
	}, false)
	for _, b := range bad {
		l.report(b)
	}
	if len(l.problems) > 0 {
		return "", l.err()
	}
	return sum, nil
}

// sum returns a checksum of a text and of the values of all parameters in float32.
func (m *Model) sum(text []byte) string { return m.sumBy(text, m.sumsOf, false) }

// sumBy is sum with a given function that returns functions for the checksums of the parts of a parameter. Several
// goroutines call the latter. If integers is set, integer weights contribute the checksums of their bytes.
func (m *Model) sumBy(text []byte, of func(*nn.Param) []func() []byte, integers bool) string {
	type part struct{ param, number int }
	var names []string
	var shapes [][]int
	var sums [][][]byte // checksums of each part of each parameter
	var parts []part
	var todo []func() []byte
	mark := ""
	m.Params("", func(name string, p *nn.Param) {
		i := len(names)
		names, shapes, sums = append(names, fmt.Sprintf("%q", name)), append(shapes, p.Shape()), append(sums, nil)
		if kept, ok := p.Packed().(engine.Rounding); ok && integers {
			if sum := kept.Sums(); sum != nil {
				names[i], sums[i], mark = kept.Stored().String()+" "+names[i], [][]byte{sum}, OfIntegers
				return
			}
		}
		some := of(p)
		sums[i] = make([][]byte, len(some))
		for number, f := range some {
			parts, todo = append(parts, part{i, number}), append(todo, f)
		}
	})
	parallel.For(len(todo), 1, func(i, _ int) {
		sums[parts[i].param][parts[i].number] = todo[i]()
	})
	h := sha256.New()
	h.Write(text)
	for i, name := range names {
		fmt.Fprintf(h, "%s %v %x\n", name, shapes[i], bytes.Join(sums[i], nil))
	}
	return mark + hex.EncodeToString(h.Sum(nil)[:16])
}

// sumLen is the approximate number of values per checksum. partSums is the number of checksums that a function
// computes.
const sumLen, partSums = 1 << 16, 8

// addSum appends the checksum of some values.
func addSum(sums []byte, values []float32) []byte {
	x := checkpoint.NewTensor("", []int{len(values)}, values) // little-endian, and mostly without a copy
	return binary.LittleEndian.AppendUint32(sums, crc32.Checksum(x.Data, crc32.MakeTable(crc32.Castagnoli)))
}

// sumsOf returns functions for the checksums of the values of a parameter, in any memory layout.
func (m *Model) sumsOf(p *nn.Param) (parts []func() []byte) {
	if p.Packed() == nil && p.Dims() != 2 {
		return []func() []byte{func() (sums []byte) {
			values := p.Floats()
			for part := range slices.Chunk(values, sumLen) {
				sums = addSum(sums, part)
			}
			return sums
		}}
	}
	rows := make([]int32, p.Dim(0))
	for i := range rows {
		rows[i] = int32(i)
	}
	step := max(1, sumLen/max(1, p.Dim(1)))
	for some := range slices.Chunk(rows, partSums*step) {
		parts = append(parts, func() (sums []byte) {
			var values []float32
			for part := range slices.Chunk(some, step) {
				tape := m.Tapes.Lend()
				x := tape.Embedding(p.Tensor, part)
				values = slices.Grow(values[:0], x.Len())[:x.Len()]
				x.CopyTo(values)
				m.Tapes.Return(tape)
				sums = addSum(sums, values)
			}
			return sums
		})
	}
	return parts
}

// Level names the processor features that the bits of results of m depend on: see native.Rounding.
func (m *Model) Level() string { return native.Rounding(m.precision) }

// CPULevel names the processor features in use. It returns "generic" if HIPPO_CPU asks for features that the processor
// lacks.
func CPULevel() string {
	level, _ := native.Level()
	return level
}
