package cluster

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"time"
)

// keyLetters are the characters of join keys, chosen so that none is mistaken for another.
const keyLetters = "23456789abcdefghjkmnpqrstuvwxyz"

// leastKey is the minimum length of a join key. That many random letters have 128 bits, too many to try all keys.
const leastKey = 26

// NewKey returns a random join key.
func NewKey() string {
	key := make([]byte, leastKey)
	for i := range key {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(keyLetters))))
		if err != nil {
			panic(err) // not reached: crypto/rand ends the program if it fails
		}
		key[i] = keyLetters[n.Int64()]
	}
	return string(key)
}

// certificate returns a new certificate for a member and one run. Others know the member by the SHA-256 of the
// certificate.
func certificate() (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), // clocks may differ
		NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, t, t, public, private)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, err
}

// fingerprint returns the SHA-256 of the certificate at the other end.
func fingerprint(s tls.ConnectionState) ([]byte, error) {
	if len(s.PeerCertificates) == 0 {
		return nil, errors.New("found no certificate")
	}
	sum := sha256.Sum256(s.PeerCertificates[0].Raw)
	return sum[:], nil
}

// ErrKey reports that the other end does not have the join key.
var ErrKey = errors.New("found another join key (--key) at the other end")

// proof returns what an end sends to show that it has the key: HMAC(key, who, binding). The binding is derived from
// this TLS connection by the exporter of RFC 8446, §7.5. So a proof is useless on another connection, and a man in the
// middle has two connections with different bindings. The proof is sent encrypted. A participant sees it, and would
// have to try 2¹²⁸ keys on it.
func proof(s tls.ConnectionState, key, who string) ([]byte, error) {
	bound, err := s.ExportKeyingMaterial("EXPORTER-hippo-join", nil, 32)
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(who))
	h.Write(bound)
	return h.Sum(nil), err
}

// prove shows the other end that this one has the key, and checks the proof of the other end. own and other are the
// roles of the two ends: "leader" or "member".
func prove(c io.ReadWriter, s tls.ConnectionState, key, own, other string) error {
	mine, err := proof(s, key, own)
	if err != nil {
		return err
	}
	if _, err := c.Write(mine); err != nil {
		return err
	}
	theirs, err := proof(s, key, other)
	if err != nil {
		return err
	}
	got := make([]byte, len(theirs))
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if !hmac.Equal(got, theirs) {
		return ErrKey
	}
	return nil
}
