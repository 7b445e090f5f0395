package kernel

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/hippo-ssm/hippo/internal/parallel"
)

// sumPiece is the number of bytes that share a checksum: as many as stay in a second-level cache.
const sumPiece = 256 << 10

// Sums returns checksums of weights that are integers, as they lie in memory, and nil for others: the bytes of integers
// are the same on every machine. They are the CRC-32 of each piece of the blocks, and of the factors of rows.
func (w *Packed) Sums() []byte {
	if !w.inGroups() {
		return nil
	}
	blocks := w.groups.blocks
	sums := make([]byte, 4*ceil(len(blocks), sumPiece), 4*ceil(len(blocks), sumPiece)+4)
	parallel.For(len(blocks), sumPiece, func(lo, hi int) {
		binary.LittleEndian.PutUint32(sums[lo/sumPiece*4:], crc32.ChecksumIEEE(blocks[lo:hi]))
	})
	rows := make([]byte, 0, 4*len(w.groups.row))
	for _, c := range w.groups.row {
		rows = binary.LittleEndian.AppendUint32(rows, math.Float32bits(c))
	}
	return binary.LittleEndian.AppendUint32(sums, crc32.ChecksumIEEE(rows))
}
