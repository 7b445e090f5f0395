package session

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestSignatureCoversContent checks that a signed file names its signer, continues like an unsigned one, and has the
// same hash for every signer. A change of any byte is found, even with a new checksum.
func TestSignatureCoversContent(t *testing.T) {
	m := language(t, "mamba(d_state=2,expand=1)")
	s := New(m, tokenizer.Bytes(), Options{})
	if err := s.Append(t.Context(), text(1, 20)); err != nil {
		t.Fatal(err)
	}
	a, b := NewSigner(""), NewSigner("")
	file, plain := encode(t, s, FileOptions{Signer: a}), encode(t, s, FileOptions{})
	x, err := CheckBytes(file)
	own, keyErr := a.Public()
	if err != nil || keyErr != nil || x.Signer != own || x.Position != 20 ||
		x.Identity != Identify(m, tokenizer.Bytes()) {
		t.Fatalf("got %+v, %v, %v", x, err, keyErr)
	}
	y, err := CheckBytes(encode(t, s, FileOptions{Signer: b}))
	if err != nil || y.Hash != x.Hash || y.Signer == x.Signer {
		t.Errorf("another signer: got %+v, %v, want the hash %s", y, err, x.Hash)
	}
	z, err := CheckBytes(plain)
	if err != nil || (z.Signer != PublicKey{}) || z.Hash == x.Hash || z.Text != x.Text {
		t.Errorf("no signer: got %+v, %v", z, err)
	}
	trust := Trust{y.Signer}
	if err := trust.Check(x.Signer); !errors.Is(err, ErrUntrusted) {
		t.Errorf("a key that is not trusted: %v", err)
	}
	if err := errors.Join(trust.Check(y.Signer), append(trust, own).Check(own)); err != nil {
		t.Error(err)
	}
	if err := trust.Check(z.Signer); !errors.Is(err, ErrUnsigned) {
		t.Errorf("no signature: %v", err)
	}
	for _, data := range [][]byte{file, plain} {
		again, err := Decode(data, m, tokenizer.Bytes(), Options{}, nil)
		if err != nil || !bytes.Equal(encode(t, again, FileOptions{}), plain) {
			t.Errorf("it does not go on as it was: %v", err)
		}
	}
	for at := range file {
		file[at] ^= 4
		if _, err := CheckBytes(file); err == nil {
			t.Fatalf("a flip at %d of %d is not found", at, len(file))
		}
		if at < len(file)-sumLen {
			sum := summer{}
			sum.add(file[:len(file)-sumLen])
			forged := bytes.Clone(file)
			got := sum.sum()
			copy(forged[len(file)-sumLen:], got[:])
			if x, err := CheckBytes(forged); err == nil && x.Signer == own {
				t.Fatalf("a flip at %d of %d with the right checksum is not found", at, len(file))
			}
		}
		file[at] ^= 4
	}
}

// TestForgedSignatures checks that forged and damaged files are refused, among them ones with the right checksum.
func TestForgedSignatures(t *testing.T) {
	m := language(t, "mamba(d_state=2,expand=1)")
	s := New(m, tokenizer.Bytes(), Options{})
	if err := s.Append(t.Context(), text(1, 20)); err != nil {
		t.Fatal(err)
	}
	signed, plain := encode(t, s, FileOptions{Signer: NewSigner("")}), encode(t, s, FileOptions{})
	sized := func(n int) checkpoint.Tensor {
		return checkpoint.NewTensor(signatureName, []int{n}, make([]uint8, n))
	}
	for _, c := range []struct {
		name string
		file []byte
		want error
	}{
		{"zeros", rewritten(t, plain, func(_ *header, all []checkpoint.Tensor) []checkpoint.Tensor {
			return append(all, sized(signatureLen))
		}), ErrSignature},
		{"an old signature", rewritten(t, signed, func(h *header, all []checkpoint.Tensor) []checkpoint.Tensor {
			h.ID = strings.Repeat("A", len(h.ID))
			return all
		}), ErrSignature},
		{"a short one", rewritten(t, plain, func(_ *header, all []checkpoint.Tensor) []checkpoint.Tensor {
			return append(all, sized(8))
		}), ErrDamaged},
		{"another place", rewritten(t, plain, func(_ *header, all []checkpoint.Tensor) []checkpoint.Tensor {
			return append([]checkpoint.Tensor{sized(signatureLen)}, all...)
		}), ErrDamaged},
		{"no place of a state", rewritten(t, plain, func(h *header, all []checkpoint.Tensor) []checkpoint.Tensor {
			h.Places = nil
			return all
		}), ErrDamaged},
		{"a newer version", newer(t, plain), ErrVersion},
		{"an encrypted one", encode(t, s, FileOptions{Key: key}), ErrKey},
		{"a huge header", append([]byte{0, 0, 0, 0, 0, 1, 0, 0}, plain[8:]...), ErrDamaged},
		{"no header", []byte{1, 2, 3}, ErrDamaged},
		{"nothing", nil, ErrDamaged},
		{"a header alone", plain[:100], ErrDamaged},
		{"no JSON", append([]byte{2, 0, 0, 0, 0, 0, 0, 0, '[', ']'}, make([]byte, 200)...), ErrDamaged},
	} {
		if x, err := CheckBytes(c.file); !errors.Is(err, c.want) {
			t.Errorf("%s: got %+v, %v, want %v", c.name, x, err, c.want)
		}
	}
	changed := rewritten(t, plain, func(h *header, all []checkpoint.Tensor) []checkpoint.Tensor {
		h.Text = strings.Repeat("0", 64)
		return all
	})
	if _, err := Decode(changed, m, tokenizer.Bytes(), Options{}, nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("another hash of the text: %v", err)
	}
}

// TestCheckerTakesAnyPieces checks that the result of a Checker does not depend on how the file is split into writes.
func TestCheckerTakesAnyPieces(t *testing.T) {
	m := language(t, "mamba(d_state=2,expand=1)")
	file := encode(t, told(t, m), FileOptions{Signer: NewSigner("")})
	want, err := CheckBytes(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 7, tailLen - 1, tailLen, tailLen + 1, len(file) - 1} {
		c := NewChecker()
		for at := 0; at < len(file); at += n {
			if _, err := c.Write(file[at:min(len(file), at+n)]); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := c.Close(); err != nil || got.Hash != want.Hash || got.Signer != want.Signer {
			t.Errorf("pieces of %d: got %+v, %v", n, got, err)
		}
	}
}

// TestSigningKey checks that the file of a key is created once, readable by its owner only, and that every signer of
// the file has the same key. A file without a key is refused.
func TestSigningKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "signing.key")
	first, err := NewSigner(path).Public()
	if err != nil {
		t.Fatal(err)
	}
	again, err := NewSigner(path).Public()
	if err != nil || again != first {
		t.Errorf("got %s, %v, want %s", again, err, first)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the file has the mode %v, %v", info.Mode(), err)
	}
	if parsed, err := ParsePublicKey(first.String()); err != nil || parsed != first {
		t.Errorf("got %s, %v", parsed, err)
	}
	for _, text := range []string{"", "ed25519:", "ed25519:00", first.String() + "00", hex.EncodeToString(first[:])} {
		if _, err := ParsePublicKey(text); err == nil {
			t.Errorf("%q is taken as a key", text)
		}
	}
	if err := os.WriteFile(path, []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = NewSigner(path).Public()
	if err == nil || !strings.Contains(err.Error(), "signing.key: found no private key") {
		t.Errorf("got %v", err)
	}
}
