package request

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// Limits of metadata, as OpenAI has them.
const (
	maxMetadata      = 16
	maxMetadataKey   = 64
	maxMetadataValue = 512
)

// CheckMetadata checks the pairs that a client gives something.
func CheckMetadata(pairs map[string]string) error {
	var ch Checks
	ch.That(len(pairs) <= maxMetadata, "metadata", "found %d pairs, want at most %d", len(pairs), maxMetadata)
	for key, value := range pairs {
		ch.That(len(key) <= maxMetadataKey && len(value) <= maxMetadataValue, "metadata",
			"found a key of %d bytes and a value of %d, want at most %d and %d", len(key), len(value), maxMetadataKey,
			maxMetadataValue)
	}
	return ch.Err
}

// Deleted says that something is no more.
func Deleted(id, object string) json.RawMessage {
	data, err := json.Marshal(map[string]any{"id": id, "object": object, "deleted": true})
	if err != nil {
		return nil // it consists of texts
	}
	return data
}

// Now is the time in an object, in seconds.
func Now() int64 { return time.Now().Unix() }

// Text is bytes as a text of JSON: what is no character is U+FFFD.
func Text(data []byte) string {
	if utf8.Valid(data) {
		return string(data)
	}
	return string([]rune(string(data)))
}
