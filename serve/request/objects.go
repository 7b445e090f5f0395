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

// CheckMetadata checks a client's pairs of metadata.
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

// Deleted returns the response to the deletion of an object.
func Deleted(id, object string) json.RawMessage {
	data, err := json.Marshal(map[string]any{"id": id, "object": object, "deleted": true})
	if err != nil {
		return nil // it consists of texts
	}
	return data
}

// Now returns the time for an object, in seconds.
func Now() int64 { return time.Now().Unix() }

// Text returns bytes as a text for JSON: invalid UTF-8 becomes U+FFFD.
func Text(data []byte) string {
	if utf8.Valid(data) {
		return string(data)
	}
	return string([]rune(string(data)))
}
