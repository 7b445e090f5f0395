package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// told returns a session that has read and written and was interrupted in the middle of a reply.
func told(t testing.TB, m *model.Model) *Session {
	t.Helper()
	s := New(m, tokenizer.Bytes(), Options{})
	if err := s.Append(t.Context(), text(5, 100)); err != nil {
		t.Fatal(err)
	}
	s.Mark("question")
	o := generate.DefaultOptions()
	o.Temperature, o.Seed, o.MaxTokens, o.EndIDs = 3, 6, 60, []int32{7}
	o.LogitBias, o.FrequencyPenalty = map[int32]float32{9: 2.5, 11: -1e9}, 0.5
	for _, err := range s.Generate(t.Context(), o) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Position() > 110 {
			break
		}
	}
	if !s.Unfinished() {
		t.Fatal("the reply has ended")
	}
	return s
}

func encode(t testing.TB, s *Session, o FileOptions) []byte {
	t.Helper()
	var file bytes.Buffer
	if err := s.Encode(&file, o); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// key encrypts the files of the tests.
var key = bytes.Repeat([]byte{3, 1, 4, 1}, 8)

// TestEveryBitIsChecked checks that a file, encrypted or not, is refused if any bit is flipped or if bytes are missing
// or added at its end.
func TestEveryBitIsChecked(t *testing.T) {
	m := language(t, "mamba(d_state=2,expand=1)")
	s := New(m, tokenizer.Bytes(), Options{})
	if err := s.Append(t.Context(), text(1, 20)); err != nil {
		t.Fatal(err)
	}
	for _, k := range [][]byte{nil, key} {
		file := encode(t, s, FileOptions{Key: k})
		try := func(what string, data []byte) {
			_, err := Decode(data, m, tokenizer.Bytes(), Options{}, k)
			if !errors.Is(err, ErrDamaged) && (k == nil || !errors.Is(err, ErrKey)) {
				t.Fatalf("%s (key: %v): %v, want %v", what, k != nil, err, ErrDamaged)
			}
		}
		for i := range file {
			for bit := range 8 {
				file[i] ^= 1 << bit
				try(fmt.Sprintf("bit %d of byte %d of %d", bit, i, len(file)), file)
				file[i] ^= 1 << bit
			}
			try(fmt.Sprintf("%d bytes of %d", i, len(file)), file[:i])
		}
		_, err := Decode([]byte("package main // is no session"), m, tokenizer.Bytes(), Options{}, k)
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "does not begin as the file of a session") {
			t.Errorf("another file: %v", err)
		}
		try("a byte more", append(slices.Clone(file), 0))
		if _, err := Decode(file, m, tokenizer.Bytes(), Options{}, k); err != nil {
			t.Error(err)
		}
	}
}

// TestFileIsForOneModel checks that a file for other weights, another precision, another tokenizer or another key, or
// one written by a newer hippo, is refused with the matching error.
func TestFileIsForOneModel(t *testing.T) {
	m := language(t, hybrid)
	s := told(t, m)
	file, sealed := encode(t, s, FileOptions{}), encode(t, s, FileOptions{Key: key})
	other, packed, bf16 := language(t, hybrid), language(t, hybrid), language(t, hybrid)
	other.Init(2)
	for p, m := range map[engine.Precision]*model.Model{engine.Float32: packed, engine.BF16: bf16} {
		if err := m.Pack(p); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		what string
		m    *model.Model
		tok  tokenizer.Tokenizer
		data []byte
		key  []byte
		want error
	}{
		{"the model", m, tokenizer.Bytes(), file, nil, nil},
		{"the model packed as float32", packed, tokenizer.Bytes(), file, nil, nil},
		{"other weights", other, tokenizer.Bytes(), file, nil, ErrModel},
		{"other layers", language(t, "h3"), tokenizer.Bytes(), file, nil, ErrModel},
		{"another precision", bf16, tokenizer.Bytes(), file, nil, ErrPrecision},
		{"another tokenizer", m, tokenizer.IDs(vocab), file, nil, ErrTokenizer},
		{"the key", m, tokenizer.Bytes(), sealed, key, nil},
		{"no key", m, tokenizer.Bytes(), sealed, nil, ErrKey},
		{"another key", m, tokenizer.Bytes(), sealed, slices.Repeat([]byte{1}, 32), ErrKey},
		{"a newer version", m, tokenizer.Bytes(), newer(t, file), nil, ErrVersion},
	} {
		got, err := Decode(c.data, c.m, c.tok, Options{}, c.key)
		if !errors.Is(err, c.want) || c.want == nil && (err != nil || got.Position() != s.Position()) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		} else if err != nil && len(err.Error()) > 200 {
			t.Errorf("%s: a long error: %v", c.what, err)
		}
	}
	if bytes.Contains(sealed, []byte("question")) || !bytes.Contains(file, []byte("question")) {
		t.Error("the names of marks can be read in an encrypted file, or not in another")
	}
	if err := s.Encode(&bytes.Buffer{}, FileOptions{Key: key[:8]}); err == nil {
		t.Error("a short key is taken")
	}
}

// newer returns the file with the next version in its header.
func newer(t *testing.T, data []byte) []byte {
	return rewritten(t, data, func(h *header, tensors []checkpoint.Tensor) []checkpoint.Tensor {
		h.Version = fileVersion + 1
		return tensors
	})
}

// rewritten returns the file with the header and tensors that change returns, and with the right checksum.
func rewritten(t *testing.T, data []byte,
	change func(h *header, tensors []checkpoint.Tensor) []checkpoint.Tensor) []byte {
	t.Helper()
	f, err := checkpoint.ParseSafetensors(data)
	if err != nil {
		t.Fatal(err)
	}
	var h header
	if err := json.Unmarshal([]byte(f.Metadata()[headerKey]), &h); err != nil {
		t.Fatal(err)
	}
	var tensors []checkpoint.Tensor
	for _, name := range f.Names() {
		if x, _ := f.Tensor(name); name != sumName {
			tensors = append(tensors, *x)
		}
	}
	tensors = append(change(&h, tensors), checkpoint.NewTensor(sumName, []int{sumLen}, make([]uint8, sumLen)))
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s := &summing{w: &out}
	meta := map[string]string{headerKey: string(text)}
	if err := checkpoint.WriteSafetensors(s, tensors, meta); err != nil {
		t.Fatal(err)
	}
	if _, err := s.close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// rest returns the rest of an interrupted reply, with the log-probabilities and logits of the session after it.
func rest(t testing.TB, s *Session) string {
	t.Helper()
	var all strings.Builder
	for p, err := range s.Continue(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%q %v %s\n", p.Text, p.IDs, p.End)
	}
	fmt.Fprintln(&all, s.LogProbs(), s.logits())
	return all.String()
}

// fileOf is the environment variable with the file from which a child process continues.
const fileOf = "HIPPO_TEST_SESSION"

// TestAnotherProcessGoesOn checks that a session saved in the middle of a reply continues in another process with the
// same text, logits and log-probabilities as in this one, also after a rewind.
func TestAnotherProcessGoesOn(t *testing.T) {
	m := language(t, hybrid)
	if err := m.Pack(engine.Int8); err != nil {
		t.Fatal(err)
	}
	if path := os.Getenv(fileOf); path != "" {
		s, err := Load(path, m, tokenizer.Bytes(), Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Print("<<<", rest(t, s))
		again, err := s.Rewind(t.Context(), 90)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Print(again, s.logits(), ">>>")
		return
	}
	s := told(t, m)
	path := filepath.Join(t.TempDir(), "story")
	if err := s.Save(path, FileOptions{Marks: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	want := rest(t, s)
	again, err := s.Rewind(t.Context(), 90)
	if err != nil {
		t.Fatal(err)
	}
	want += fmt.Sprint(again, s.logits())
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAnotherProcessGoesOn$", "-test.v")
	cmd.Env = append(os.Environ(), fileOf+"="+path)
	out, err := cmd.CombinedOutput()
	_, got, _ := strings.Cut(string(out), "<<<")
	if got, _, _ = strings.Cut(got, ">>>"); err != nil || got != want {
		t.Errorf("another process goes on with\n%s\nwant\n%s\n%v", got, want, err)
	}
}

// TestRounded checks that rounded states take about half the space and give log-probabilities close to the exact ones.
func TestRounded(t *testing.T) {
	m := language(t, "h3,mamba")
	s := told(t, m)
	exact, short := encode(t, s, FileOptions{}), encode(t, s, FileOptions{Round: true})
	state := s.StateSize()
	if saved := len(exact) - len(short); saved < state*2/5 || saved > state/2 {
		t.Errorf("%d bytes are saved of a state of %d", saved, state)
	}
	r, err := Decode(short, m, tokenizer.Bytes(), Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ids := text(9, 30)
	want, err := s.Score(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Score(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	var a, b float64
	for i := range ids {
		a, b = a+float64(want[0][i]), b+float64(got[0][i])
	}
	if d := a - b; a == b || d > 0.5 || d < -0.5 {
		t.Errorf("the ending has log-probability %v, from a rounded state %v", a, b)
	}
}

// TestStatesInHalves checks that a session whose states are in bfloat16 is saved exactly, in less space, and continues
// with the same bits, also forked and rewound. The file is refused by a model with states in float32 and vice versa,
// and by versions that do not know such states.
func TestStatesInHalves(t *testing.T) {
	wide, m := language(t, "mamba2,attention"), language(t, "mamba2,attention")
	if err := m.SetStatePrecision(engine.BF16); err != nil {
		t.Fatal(err)
	}
	s := told(t, m)
	file, of := encode(t, s, FileOptions{}), encode(t, told(t, wide), FileOptions{})
	if len(file) >= len(of) {
		t.Errorf("%d bytes, where float32 takes %d", len(file), len(of))
	}
	var h header
	rewritten(t, file, func(x *header, all []checkpoint.Tensor) []checkpoint.Tensor {
		h = *x
		return all
	})
	if h.Version != fileVersion || h.Identity.States != "bf16" || h.Rounded {
		t.Errorf("found the version %d, states in %q, rounded: %v", h.Version, h.Identity.States, h.Rounded)
	}
	again, err := Decode(file, m, tokenizer.Bytes(), Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	goesOn := func(s *Session) string {
		all := rest(t, s)
		at, err := s.Rewind(t.Context(), 90)
		if err != nil {
			t.Fatal(err)
		}
		return all + fmt.Sprint(at, s.logits())
	}
	fork := s.Fork()
	if want := goesOn(s); goesOn(again) != want || goesOn(fork) != want {
		t.Error("loaded or forked it goes on with other bits")
	}
	for _, c := range []struct {
		m    *model.Model
		data []byte
	}{{wide, file}, {m, of}} {
		_, err := Decode(c.data, c.m, tokenizer.Bytes(), Options{}, nil)
		if !errors.Is(err, ErrPrecision) || !strings.Contains(err.Error(), "states in bf16") {
			t.Errorf("states in %v: got %v, want %v", c.m.StatePrecision(), err, ErrPrecision)
		}
	}
}

// TestSnapshotGoesOn checks that a decoded snapshot continues like the encoded one.
func TestSnapshotGoesOn(t *testing.T) {
	m := language(t, hybrid)
	id := Identify(m, tokenizer.Bytes())
	n := told(t, m).Snapshot()
	for _, k := range [][]byte{nil, key} {
		var file bytes.Buffer
		if err := n.Encode(&file, id, FileOptions{Key: k}); err != nil {
			t.Fatal(err)
		}
		again, err := DecodeSnapshot(file.Bytes(), m, id, k)
		if err != nil {
			t.Fatal(err)
		}
		a, b := n.Session(m), again.Session(m)
		if !slices.Equal(a.Logits(0), b.Logits(0)) {
			t.Error("it has other logits")
		}
		for _, s := range []*generate.Batch{a, b} {
			if err := s.Feed(context.Background(), text(2, 70)); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(a.Logits(0), b.Logits(0)) {
			t.Error("it goes on otherwise")
		}
		id.Model += "x"
		if _, err := DecodeSnapshot(file.Bytes(), m, id, k); !errors.Is(err, ErrModel) {
			t.Errorf("another model: %v", err)
		}
		id = Identify(m, tokenizer.Bytes())
	}
}

// FuzzDecode checks that decoding any file, even one with the right checksum, returns a session or an error.
func FuzzDecode(f *testing.F) {
	m := language(f, "mamba(d_state=2,expand=1),attention")
	s := New(m, tokenizer.Bytes(), Options{})
	if err := s.Append(f.Context(), text(1, 5)); err != nil {
		f.Fatal(err)
	}
	s.Mark("here")
	for _, o := range []FileOptions{{}, {Round: true}, {Key: key}, {Signer: NewSigner("")}} {
		f.Add(encode(f, s, o))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if n := len(data) - sumLen; n > 0 && !isSealed(data) {
			var sum summer
			sum.add(data[:n])
			right := sum.sum()
			data = append(data[:n:n], right[:]...)
		}
		if x, err := CheckBytes(data); err == nil && x.Bytes != int64(len(data)) {
			t.Errorf("checked are %d bytes of %d", x.Bytes, len(data))
		}
		s, err := Decode(data, m, tokenizer.Bytes(), Options{Budget: 1 << 16}, key)
		if err != nil {
			return
		}
		if err := s.Append(t.Context(), []int32{1, 2, 3}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Rewind(t.Context(), s.Position()/2); err != nil {
			t.Fatal(err)
		}
	})
}

// big returns a model of the shape of H3-125M without attention, with random weights.
func big(b *testing.B) *model.Model {
	c, err := model.Preset("h3-125m")
	if err != nil {
		b.Fatal(err)
	}
	c.Layers = "h3*12"
	m, err := model.New(c)
	if err != nil {
		b.Fatal(err)
	}
	m.Init(1)
	return m
}

// BenchmarkH3 measures saving, loading and forking a session of H3-125M's shape without attention, with the file in the
// page cache.
func BenchmarkH3(b *testing.B) {
	m := big(b)
	tok := tokenizer.IDs(m.Config.PaddedVocab())
	s := New(m, tok, Options{})
	if err := s.Append(b.Context(), text(1, 256)); err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "session")
	save := func(b *testing.B) {
		if err := s.Save(path, FileOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	load := func(b *testing.B) {
		if _, err := Load(path, m, tok, Options{}, nil); err != nil {
			b.Fatal(err)
		}
	}
	save(b) // the fingerprint is computed once
	b.Run("save", func(b *testing.B) {
		for b.Loop() {
			save(b)
		}
	})
	b.Run("encode", func(b *testing.B) {
		var file bytes.Buffer
		for b.Loop() {
			file.Reset()
			if err := s.Encode(&file, FileOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		b.SetBytes(int64(file.Len()))
	})
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			load(b)
		}
	})
	b.Run("fork", func(b *testing.B) {
		for b.Loop() {
			s.Fork().batch()
		}
	})
}
