package receipt

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"testing"

	"github.com/hippo-ssm/hippo/session"
)

// TestChain checks that a link depends on all bits of the logits and on the previous links.
func TestChain(t *testing.T) {
	c := newChain()
	first := c.add([]float32{1, 0})
	sum := sha256.Sum256(append(make([]byte, 16), 0, 0, 0x80, 0x3f, 0, 0, 0, 0))
	if want := hex.EncodeToString(sum[:16]); first != want {
		t.Errorf("got %s, want %s", first, want)
	}
	if again := c.add([]float32{1, 0}); again == first {
		t.Error("equal logits have equal links at two tokens")
	}
	if zero := newChain().add([]float32{1, float32(math.Copysign(0, -1))}); zero == first {
		t.Error("0 and -0 have equal links")
	}
}

// FuzzRead checks that reading a receipt gives an error or a receipt that can be written and read again.
func FuzzRead(f *testing.F) {
	signer := session.NewSigner("")
	whole := Receipt{Object: Object, Version: version, Prompt: []Part{{Tokens: 1, IDs: []int32{2}}}, IDs: []int32{1},
		Logits: []float32{0.1}, Chain: []string{"00"}}
	data, err := whole.Sign(signer)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(data))
	f.Add([]byte(`{"object":"hippo.receipt","prompt":[{"tokens":-1}],"settings":{"seed":"x"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r Receipt
		if json.Unmarshal(data, &r) == nil { // anyone can sign a receipt
			if again, err := r.Sign(signer); err == nil {
				data = again
			}
		}
		read, _, err := Read(data)
		if err != nil {
			return
		}
		again, err := json.Marshal(read)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := Read(again); err != nil {
			t.Errorf("%s is a receipt, and then is none: %v", data, err)
		}
		_ = read.SetPrompt([]int32{1, 2}) // may return an error
	})
}
