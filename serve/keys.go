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

// Scope is what a key allows.
type Scope string

// The scopes.
const (
	ScopeAll         Scope = "all"
	ScopeModels      Scope = "models"      // list and describe models
	ScopeCompletions Scope = "completions" // read and write texts
	ScopePredict     Scope = "predict"     // have networks of hippo fit predict
	ScopeTokenize    Scope = "tokenize"    // tokenizers and their files
	ScopeMetrics     Scope = "metrics"     // figures of the server
	ScopeAdmin       Scope = "admin"       // fetch and delete models
	ScopeFiles       Scope = "files"       // files and batches of one's own
)

// Scopes are all of them.
func Scopes() []Scope {
	return []Scope{ScopeAll, ScopeModels, ScopeCompletions, ScopePredict, ScopeTokenize, ScopeFiles, ScopeMetrics,
		ScopeAdmin}
}

// Key is a client's API key as a server knows it: by a hash. Keys are random numbers of 130 bits, so that no slow hash
// is needed: they cannot be guessed.
type Key struct {
	Name   string // of the client: it is in the log
	Scopes []Scope
	Hash   [sha256.Size]byte // of the key

	Requests int       // a minute, 0 for any number
	Tokens   int       // a minute that are read or written for it, 0 for any number
	Expires  time.Time // when it is good no longer; zero for never
}

// NewKey makes a key. The secret is what its client sends; it is nowhere else.
func NewKey(name string, scopes ...Scope) (k Key, secret string) {
	secret = "hippo-" + rand.Text()
	return Key{Name: name, Scopes: scopes, Hash: sha256.Sum256([]byte(secret))}, secret
}

// String is a line of a file of keys.
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
	if !k.Expires.IsZero() {
		line += " expires=" + k.Expires.Format(time.DateOnly)
	}
	return line
}

// expired reports whether the key is good no longer.
func (k *Key) expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

// allows reports whether the key is good for a scope.
func (k *Key) allows(s Scope) bool {
	return slices.Contains(k.Scopes, s) || slices.Contains(k.Scopes, ScopeAll)
}

// ParseKeys reads a file of keys: a line for each, with its name, its scopes with commas between, and the SHA-256 of
// the key in hexadecimal, and behind them what limits it: rpm=REQUESTS and tpm=TOKENS a minute, expires=YEAR-MONTH-DAY,
// on which, in UTC, it is good no longer. Empty lines and those that begin with # are left out.
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

// limit reads one of the words that limit a key.
func (k *Key) limit(word string) error {
	name, value, _ := strings.Cut(word, "=")
	to := map[string]*int{"rpm": &k.Requests, "tpm": &k.Tokens}[name]
	switch {
	case name == "expires":
		day, err := time.Parse(time.DateOnly, value)
		if err != nil {
			return fmt.Errorf("expires: found %.40q, want a day such as 2027-01-31", value)
		}
		k.Expires = day
		return nil
	case to == nil:
		return fmt.Errorf("found %.40q, want rpm=, tpm= or expires=", word)
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return fmt.Errorf("%s: found %.40q, want a number from 1 up", name, value)
	}
	*to = n
	return nil
}

// keyNamed returns the key of a name, nil for none.
func keyNamed(keys []Key, name string) *Key {
	if i := slices.IndexFunc(keys, func(k Key) bool { return k.Name == name }); i >= 0 {
		return &keys[i]
	}
	return nil
}

// findKey returns the key of a secret, nil for none. The time it takes does not depend on the secret.
func findKey(keys []Key, secret string) (found *Key) {
	hash := sha256.Sum256([]byte(secret))
	for i := range keys {
		if subtle.ConstantTimeCompare(hash[:], keys[i].Hash[:]) == 1 {
			found = &keys[i]
		}
	}
	return found
}
