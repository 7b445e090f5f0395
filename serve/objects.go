package serve

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

// checkMetadata checks the pairs that a client gives something.
func checkMetadata(pairs map[string]string) error {
	var ch checks
	ch.that(len(pairs) <= maxMetadata, "metadata", "found %d pairs, want at most %d", len(pairs), maxMetadata)
	for key, value := range pairs {
		ch.that(len(key) <= maxMetadataKey && len(value) <= maxMetadataValue, "metadata",
			"found a key of %d bytes and a value of %d, want at most %d and %d", len(key), len(value), maxMetadataKey,
			maxMetadataValue)
	}
	return ch.err
}

// deletedObject says that something is no more.
func deletedObject(id, object string) json.RawMessage {
	data, err := json.Marshal(map[string]any{"id": id, "object": object, "deleted": true})
	if err != nil {
		return nil // it consists of texts
	}
	return data
}

// now is the time in an object, in seconds.
func now() int64 { return time.Now().Unix() }

// validText is bytes as a text of JSON: what is no character is U+FFFD.
func validText(data []byte) string {
	if utf8.Valid(data) {
		return string(data)
	}
	return string([]rune(string(data)))
}
