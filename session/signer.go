package session

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// PublicKey is an Ed25519 public key (RFC 8032), which identifies a signer. The zero value stands for no signer.
type PublicKey [ed25519.PublicKeySize]byte

// publicPrefix is the prefix of the text form of a public key. The bytes of the key follow in hexadecimal digits.
const publicPrefix = "ed25519:"

// ParsePublicKey parses the text form of a public key, as String returns it.
func ParsePublicKey(text string) (k PublicKey, err error) {
	digits, ok := strings.CutPrefix(text, publicPrefix)
	data, err := hex.DecodeString(digits)
	if !ok || err != nil || len(data) != len(k) {
		return k, fmt.Errorf("found the key %.80q, want %s and %d hexadecimal digits, as hippo session signer prints",
			text, publicPrefix, 2*len(k))
	}
	return PublicKey(data), nil
}

func (k PublicKey) String() string { return publicPrefix + hex.EncodeToString(k[:]) }

// Verify reports whether a signature of a hash is by the key. purpose distinguishes signatures of different kinds of
// data. Verify returns false for the zero key: it is a point of small order, for which anyone can find signatures.
func (k PublicKey) Verify(purpose string, hash [32]byte, signature []byte) bool {
	return k != PublicKey{} && ed25519.Verify(k[:], signed(purpose, hash), signature)
}

// signed returns the bytes that a signature covers: the purpose, a line end, and the SHA-256 of the signed data.
func signed(purpose string, hash [32]byte) []byte { return append([]byte(purpose+"\n"), hash[:]...) }

// Signer signs with a private key. Any number of goroutines may use it.
type Signer struct {
	path string // "" for a key in memory

	mu  sync.Mutex
	key ed25519.PrivateKey // nil until its first use
}

// NewSigner returns a signer whose key is in a file, PKCS #8 in PEM. The first use creates the file if it does not
// exist, readable by its owner only. If path is empty, the key is new and exists only in memory.
func NewSigner(path string) *Signer { return &Signer{path: path} }

// KeyVariable is the environment variable that names the file of the key with which hippo signs.
const KeyVariable = "HIPPO_SIGNING_KEY"

// DefaultKey returns the path of the key with which hippo signs: the value of the variable KeyVariable, or
// hippo/signing.key in the user's data folder.
func DefaultKey() (string, error) {
	if path := os.Getenv(KeyVariable); path != "" {
		return path, nil
	}
	dir, err := dataFolder()
	return filepath.Join(dir, "signing.key"), err
}

// Public returns the public key.
func (s *Signer) Public() (PublicKey, error) {
	key, err := s.private()
	if err != nil {
		return PublicKey{}, err
	}
	return PublicKey(key.Public().(ed25519.PublicKey)), nil
}

// Sign signs a hash for a purpose.
func (s *Signer) Sign(purpose string, hash [32]byte) ([]byte, error) {
	key, err := s.private()
	if err != nil {
		return nil, err
	}
	return ed25519.Sign(key, signed(purpose, hash)), nil
}

// private returns the key. It reads or creates the file on first use.
func (s *Signer) private() (ed25519.PrivateKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key != nil {
		return s.key, nil
	}
	var err error
	if s.path == "" {
		_, s.key, err = ed25519.GenerateKey(rand.Reader)
		return s.key, err
	}
	key, err := readSigningKey(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = createSigningKey(s.path); err == nil {
			key, err = readSigningKey(s.path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	s.key = key
	return key, nil
}

const pemPrivate = "PRIVATE KEY" // PKCS #8

func readSigningKey(path string) (ed25519.PrivateKey, error) {
	text, err := disk.ReadText(path, disk.MaxText)
	if err != nil {
		return nil, err
	}
	if block, _ := pem.Decode(text); block != nil && block.Type == pemPrivate {
		if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if own, ok := key.(ed25519.PrivateKey); ok {
				return own, nil
			}
		}
	}
	return nil, fmt.Errorf("%s: found no private key of Ed25519, want one in PKCS #8 and PEM, as hippo session signer "+
		"creates it where there is no file", path)
}

// createSigningKey creates the file of a new key. It keeps a file that another process has just created.
func createSigningKey(path string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+disk.TmpMark+"*") // readable by its owner only
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	err = pem.Encode(f, &pem.Block{Type: pemPrivate, Bytes: der})
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Link(f.Name(), path); err != nil && !disk.Exists(path) { // a disk without links
		err = os.Rename(f.Name(), path)
	} else {
		err = nil
	}
	return err
}

// Trust lists the keys whose signatures are accepted.
type Trust []PublicKey

// ParseTrust reads a list of keys.
func ParseTrust(texts []string) (t Trust, err error) {
	for _, text := range texts {
		k, err := ParsePublicKey(text)
		if err != nil {
			return nil, fmt.Errorf("trust: %w", err)
		}
		t = append(t, k)
	}
	return t, nil
}

// Check returns an error unless by, the signer of a file, is one of the keys.
func (t Trust) Check(by PublicKey) error {
	switch {
	case by == PublicKey{}:
		return fmt.Errorf("%w: want the signature of a trusted key", ErrUnsigned)
	case !slices.Contains(t, by):
		return fmt.Errorf("%w: found %s, want one of %v", ErrUntrusted, by, []PublicKey(t))
	}
	return nil
}
