package clients

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// readState returns the output of state.mjs about a file.
func readState(t *testing.T, file []byte) (out, problem string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.session")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "state.mjs", path)
	var said, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &errs
	if err := cmd.Run(); err != nil && errs.Len() == 0 {
		t.Fatal(err)
	}
	return said.String(), errs.String()
}

// TestStateInJavaScript checks that a reader in another language, written after docs/state-format.md, finds the same
// header, hash, signer and numbers in a file as this program, and the same errors.
func TestStateInJavaScript(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("LEFT OUT: files of sessions are read with node, which is not here")
	}
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.Layers, c.NumHeads, c.DState = 16, 256, "h3,attention,mamba", 2, 8
	net, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	net.Init(1)
	if err := net.Pack(engine.Int8); err != nil {
		t.Fatal(err)
	}
	s := session.New(net, tokenizer.Bytes(), session.Options{})
	ids := make([]int32, 70)
	for i := range ids {
		ids[i] = int32(i * 7 % 256)
	}
	if err := s.Append(t.Context(), ids); err != nil {
		t.Fatal(err)
	}
	encode := func(o session.FileOptions) []byte {
		var b bytes.Buffer
		if err := s.Encode(&b, o); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	kinds := map[checkpoint.DType]bool{}
	for _, o := range []session.FileOptions{{Signer: session.NewSigner("")}, {Round: true, Marks: 1 << 20}} {
		file := encode(o)
		out, problem := readState(t, file)
		if problem != "" {
			t.Fatal(problem)
		}
		lines := bufio.NewScanner(strings.NewReader(out))
		lines.Buffer(nil, 1<<20)
		lines.Scan()
		var head struct {
			Hash   string
			Signer *string
			Header json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &head); err != nil {
			t.Fatal(err)
		}
		want, err := session.CheckBytes(file)
		if err != nil || head.Hash != want.Hash || (head.Signer != nil) != (o.Signer != nil) ||
			head.Signer != nil && *head.Signer != want.Signer.String() {
			t.Errorf("got %+v, want %+v, %v", head, want, err)
		}
		f, err := checkpoint.ParseSafetensors(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range f.Names() {
			x, _ := f.Tensor(name)
			kinds[x.DType] = true
			scales, _ := f.Tensor(strings.Replace(name, ".state.", ".scale.", 1))
			var got struct {
				Name  string
				Shape []int
				Sum   *float64
			}
			if !lines.Scan() || json.Unmarshal(lines.Bytes(), &got) != nil || got.Name != name {
				t.Fatalf("found %s, want %s", lines.Text(), name)
			}
			if sum := sumOf(t, x, scales); math.IsNaN(sum) != (got.Sum == nil) || got.Sum != nil && *got.Sum != sum {
				t.Errorf("%s: found the sum %s, want %v", name, lines.Text(), sum)
			}
		}
		if lines.Scan() {
			t.Errorf("found %s, want no more", lines.Text())
		}
		if o.Signer == nil {
			continue
		}
		for _, at := range []int{len(file) / 2, len(file) - 60, len(file) - 1} {
			forged := bytes.Clone(file)
			forged[at] ^= 1
			if out, problem := readState(t, forged); problem == "" {
				t.Errorf("a flip at %d is not found: %s", at, out)
			}
		}
	}
	for _, d := range []checkpoint.DType{checkpoint.F32, checkpoint.BF16, checkpoint.I8, checkpoint.I32} {
		if !kinds[d] {
			t.Errorf("no tensor has the type %s", d)
		}
	}
}

// sumOf returns the sum of a tensor, in the order of its elements.
func sumOf(t *testing.T, x, scales *checkpoint.Tensor) (sum float64) {
	t.Helper()
	switch x.DType {
	case checkpoint.U8:
		for _, b := range x.Data {
			sum += float64(b)
		}
		return sum
	case checkpoint.I32:
		all, err := x.Int64()
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range all {
			sum += float64(id)
		}
		return sum
	}
	var values, factors []float32
	var err error
	if x.DType == checkpoint.I8 {
		if factors, err = scales.Float32(); err != nil {
			t.Fatal(err)
		}
		row := x.Shape[len(x.Shape)-1]
		for i, b := range x.Data {
			values = append(values, float32(int8(b))*factors[i/row])
		}
	} else if values, err = x.Float32(); err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		sum += float64(v)
	}
	return sum
}
