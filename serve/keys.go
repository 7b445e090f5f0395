package serve

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Scope is a permission of a key.
type Scope string

// The scopes.
const (
	ScopeAll         Scope = "all"
	ScopeModels      Scope = "models"      // list and describe models
	ScopeCompletions Scope = "completions" // read and generate texts
	ScopePredict     Scope = "predict"     // predict with networks of hippo fit
	ScopeTokenize    Scope = "tokenize"    // tokenizers and their files
	ScopeMetrics     Scope = "metrics"     // metrics of the server
	ScopeAdmin       Scope = "admin"       // fetch and delete models
	ScopeFiles       Scope = "files"       // the client's files and batches
)

// Scopes returns all scopes.
func Scopes() []Scope {
	return []Scope{ScopeAll, ScopeModels, ScopeCompletions, ScopePredict, ScopeTokenize, ScopeFiles, ScopeMetrics,
		ScopeAdmin}
}

// Key is a client's API key, which a server stores as a hash. A fast hash is enough: keys are random numbers of 130
// bits, which cannot be guessed.
type Key struct {
	Name   string // of the client, for the log
	Scopes []Scope
	Hash   [sha256.Size]byte // of the key

	Requests   int       // per minute, 0 for no limit
	Tokens     int       // read and generated per minute, 0 for no limit
	Concurrent int       // requests that run at a time, 0 for no limit
	Expires    time.Time // zero for never
}

// NewKey creates a key. The secret is what its client sends; it is stored nowhere.
func NewKey(name string, scopes ...Scope) (k Key, secret string) {
	secret = "hippo-" + rand.Text()
	return Key{Name: name, Scopes: scopes, Hash: sha256.Sum256([]byte(secret))}, secret
}

// String returns the line of the key in a file of keys.
func (k Key) String() string {
	scopes := make([]string, len(k.Scopes))
	for i, s := range k.Scopes {
		scopes[i] = string(s)
	}
	line := k.Name + " " + strings.Join(scopes, ",") + " " + hex.EncodeToString(k.Hash[:])
	if k.Requests > 0 {
		line += " rpm=" + strconv.Itoa(k.Requests)
	}
	if k.Tokens > 0 {
		line += " tpm=" + strconv.Itoa(k.Tokens)
	}
	if k.Concurrent > 0 {
		line += " concurrent=" + strconv.Itoa(k.Concurrent)
	}
	if !k.Expires.IsZero() {
		line += " expires=" + k.Expires.Format(time.DateOnly)
	}
	return line
}

// expired reports whether the key has expired.
func (k *Key) expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

// allows reports whether the key has a scope.
func (k *Key) allows(s Scope) bool {
	return slices.Contains(k.Scopes, s) || slices.Contains(k.Scopes, ScopeAll)
}

// ParseKeys reads a file of keys. Each line has a name, scopes separated by commas, the SHA-256 of the key in
// hexadecimal, and limits: rpm=REQUESTS and tpm=TOKENS per minute, concurrent=REQUESTS that run at a time, and
// expires=YEAR-MONTH-DAY, the day in UTC on which the key expires. Empty lines and those that start with # are skipped.
func ParseKeys(data []byte) (keys []Key, err error) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		k, err := parseKey(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if slices.ContainsFunc(keys, func(other Key) bool { return other.Name == k.Name }) {
			return nil, fmt.Errorf("line %d: the name %q for the second time", n, k.Name)
		}
		keys = append(keys, k)
	}
	return keys, lines.Err()
}

func parseKey(line string) (k Key, err error) {
	parts := strings.Fields(line)
	if len(parts) < 3 {
		return k, fmt.Errorf("found %d words, want a name, scopes and a hash", len(parts))
	}
	k.Name = parts[0]
	for _, s := range strings.Split(parts[1], ",") {
		if !slices.Contains(Scopes(), Scope(s)) {
			return k, fmt.Errorf("found the scope %q, want one of %q", s, Scopes())
		}
		k.Scopes = append(k.Scopes, Scope(s))
	}
	hash, err := hex.DecodeString(parts[2])
	if err != nil || len(hash) != sha256.Size {
		return k, fmt.Errorf("found a hash of %d characters, want the %d hexadecimal digits of a SHA-256",
			len(parts[2]), 2*sha256.Size)
	}
	copy(k.Hash[:], hash)
	for _, word := range parts[3:] {
		if err := k.limit(word); err != nil {
			return k, err
		}
	}
	return k, nil
}

// limit parses one limit of a key.
func (k *Key) limit(word string) error {
	name, value, _ := strings.Cut(word, "=")
	to := map[string]*int{"rpm": &k.Requests, "tpm": &k.Tokens, "concurrent": &k.Concurrent}[name]
	switch {
	case name == "expires":
		day, err := time.Parse(time.DateOnly, value)
		if err != nil {
			return fmt.Errorf("expires: found %.40q, want a day such as 2027-01-31", value)
		}
		k.Expires = day
		return nil
	case to == nil:
		return fmt.Errorf("found %.40q, want rpm=, tpm=, concurrent= or expires=", word)
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return fmt.Errorf("%s: found %.40q, want a number from 1 up", name, value)
	}
	*to = n
	return nil
}

// keyNamed returns the key of a name, or nil.
func keyNamed(keys []Key, name string) *Key {
	if i := slices.IndexFunc(keys, func(k Key) bool { return k.Name == name }); i >= 0 {
		return &keys[i]
	}
	return nil
}

// findKey returns the key of a secret, or nil. Its time does not depend on the secret.
func findKey(keys []Key, secret string) (found *Key) {
	hash := sha256.Sum256([]byte(secret))
	for i := range keys {
		if subtle.ConstantTimeCompare(hash[:], keys[i].Hash[:]) == 1 {
			found = &keys[i]
		}
	}
	return found
}
