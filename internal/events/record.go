package events

import (
	"encoding/binary"
	"hash/crc32"
	"io"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedCRC returns the CRC-32C of data, rotated and offset so that a CRC of data that contains CRCs is still a good
// one: ((c >> 15) | (c << 17)) + 0xa282ead8. See TensorFlow, tsl/lib/hash/crc32c.h.
func maskedCRC(data []byte) uint32 {
	c := crc32.Checksum(data, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// writeRecord writes a TFRecord: length (8 bytes), its masked CRC (4), data, its masked CRC (4), all little-endian. See
// TensorFlow, lib/io/record_writer.h.
func writeRecord(w io.Writer, data []byte) error {
	var head [12]byte
	binary.LittleEndian.PutUint64(head[:8], uint64(len(data)))
	binary.LittleEndian.PutUint32(head[8:], maskedCRC(head[:8]))
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return err
	}
	var foot [4]byte
	binary.LittleEndian.PutUint32(foot[:], maskedCRC(data))
	_, err := w.Write(foot[:])
	return err
}
