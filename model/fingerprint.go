package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"runtime"
	"slices"
	"sync"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/nn"
)

// identity is the fingerprint of a model, kept as long as its parameters stay as they are.
type identity struct {
	mu      sync.Mutex
	version uint64 // of all parameters
	text    string // "" where it has not been computed
}

// Fingerprint is a name for the configuration and the values of all weights, as they are in memory: of a packed model
// those that it has been rounded to, of one with an adapter those of the adapter, too. It is a checksum against
// mistakes, not against somebody who wants two models to have the same. It is computed once, in about the time that
// reading the weights takes.
func (m *Model) Fingerprint() string {
	version := uint64(0)
	add := func(_ string, p *nn.Param) { version += p.Version() }
	m.Params("", add)
	text := m.Config.JSON()
	if m.adapter != nil {
		m.adapter.Params("", add)
		text = append(text, m.adapter.fingerprint()...)
	}
	m.identity.mu.Lock()
	defer m.identity.mu.Unlock()
	if m.identity.text == "" || m.identity.version != version {
		m.identity.text, m.identity.version = m.sum(text), version
	}
	return m.identity.text
}

// WeightsFingerprint is Fingerprint of the weights alone, without those of an adapter: it is the same whatever the
// configuration says of dropout or of the tokenizer. It is computed at each call.
func (m *Model) WeightsFingerprint() string { return m.sum(nil) }

// Fingerprint is the WeightsFingerprint of a model like m with the values of the file in float32, which need not be in
// memory at once. They have to fit m.
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
	sum := m.sumBy(nil, func(p *nn.Param) (sums []byte) {
		i, n := at[p], sumLen
		if p.Dims() == 2 {
			n = max(1, sumLen/max(1, p.Dim(1))) * p.Dim(1)
		}
		for from := 0; from < p.Len() && bad[i] == nil; from += n {
			withPiece(min(n, p.Len()-from), func(x []float32) {
				bad[i] = l.read(i, x, from)
				sums = addSum(sums, x)
			})
		}
		return sums
	})
	for _, b := range bad {
		l.report(b)
	}
	if len(l.problems) > 0 {
		return "", l.err()
	}
	return sum, nil
}

// sum is a checksum of a text and of all parameters.
func (m *Model) sum(text []byte) string { return m.sumBy(text, m.sumOf) }

// sumBy is sum with the checksums of a parameter from a function, which several goroutines call.
func (m *Model) sumBy(text []byte, of func(*nn.Param) []byte) string {
	var params []*nn.Param
	var names []string
	m.Params("", func(name string, p *nn.Param) {
		params, names = append(params, p), append(names, name)
	})
	sums := make([][]byte, len(params))
	places := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for i, p := range params {
		places <- struct{}{}
		all.Go(func() {
			sums[i] = of(p)
			<-places
		})
	}
	all.Wait()
	h := sha256.New()
	h.Write(text)
	for i, p := range params {
		fmt.Fprintf(h, "%q %v %x\n", names[i], p.Shape(), sums[i])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// sumLen is about how many values have a checksum of their own.
const sumLen = 1 << 16

// addSum appends the checksum of some values.
func addSum(sums []byte, values []float32) []byte {
	x := checkpoint.NewTensor("", []int{len(values)}, values) // little-endian, and mostly without a copy
	return binary.LittleEndian.AppendUint32(sums, crc32.Checksum(x.Data, crc32.MakeTable(crc32.Castagnoli)))
}

// sumOf returns checksums of the values of a parameter, however they lie in memory.
func (m *Model) sumOf(p *nn.Param) (sums []byte) {
	add := func(values []float32) { sums = addSum(sums, values) }
	if p.Packed() == nil && p.Dims() != 2 {
		values := make([]float32, p.Len())
		p.CopyTo(values)
		for part := range slices.Chunk(values, sumLen) {
			add(part)
		}
		return sums
	}
	rows := make([]int32, 0, p.Dim(0))
	for i := range p.Dim(0) {
		rows = append(rows, int32(i))
	}
	values := make([]float32, 0, sumLen)
	for part := range slices.Chunk(rows, max(1, sumLen/max(1, p.Dim(1)))) {
		tape := m.Tapes.Lend()
		x := tape.Embedding(p.Tensor, part)
		values = slices.Grow(values[:0], x.Len())[:x.Len()]
		x.CopyTo(values)
		m.Tapes.Return(tape)
		add(values)
	}
	return sums
}
