package release

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
)

// loadingProcess is the variable with the folder and the precision that a process of TestLoadingTakesWhatStays loads.
const loadingProcess = "HIPPO_TEST_LOADING"

// asStored means that no precision is requested.
const asStored = "stored"

// loadingTook is the report of such a process, in bytes.
type loadingTook struct{ Before, Peak, After, Weights uint64 }

// TestLoadingTakesWhatStays checks that a process that loads a model for inference never uses more memory than the
// packed weights and a few pieces of the file, and afterwards no more than the weights. The weights take 103 MB as
// float32 and half of that in the file. Without a precision they take the same memory as in the file, in bfloat16 or as
// integers.
func TestLoadingTakesWhatStays(t *testing.T) {
	if task := os.Getenv(loadingProcess); task != "" {
		loadAndTell(t, task)
		return
	}
	cfg, err := model.Preset("mamba-130m")
	if err != nil {
		t.Fatal(err)
	}
	cfg.DModel, cfg.NLayer, cfg.VocabSize = 512, 10, 16000
	dir := t.TempDir()
	saveBF16(t, cfg, dir)
	quantized := t.TempDir()
	if err := must(LoadDirPacked(dir, engine.Int4)).SavePacked(quantized); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{dir, asStored}, {dir, engine.BF16.String()}, {dir, engine.Int8.String()},
		{quantized, asStored}} {
		p := c[1]
		info, err := os.Stat(filepath.Join(c[0], model.WeightsFile))
		if err != nil {
			t.Fatal(err)
		}
		task, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestLoadingTakesWhatStays$", "-test.v=false")
		cmd.Env = append(os.Environ(), loadingProcess+"="+string(task))
		var said, complaint bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &complaint
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v\n%s%s", p, err, &said, &complaint)
		}
		var took loadingTook
		if err := json.NewDecoder(&said).Decode(&took); err != nil {
			t.Fatalf("%s: %v\n%s", p, err, &said)
		}
		t.Logf("%s: weights of %d MB, %d MB at most and %d MB after it, from %d MB", p, took.Weights>>20, took.Peak>>20,
			took.After>>20, took.Before>>20)
		const besides = 12 << 20 // pieces for two or more cores, 2 MB of the file each, and the memory of Go's runtime
		if most := uint64(info.Size()) * 11 / 10; p == asStored && took.Weights > most {
			t.Errorf("%s: weights of %d bytes, want at most %d: those of the file, and a tenth", p, took.Weights, most)
		}
		if most := took.Before + took.Weights*11/10 + besides; took.Peak > most || took.After > most {
			t.Errorf("%s: weights of %d bytes took %d at most and %d after it, from %d; want at most %d", p,
				took.Weights, took.Peak, took.After, took.Before, most)
		}
	}
}

// loadAndTell loads a model and reports the memory in use. It runs in a separate process.
func loadAndTell(t *testing.T, task string) {
	var args [2]string
	if err := json.Unmarshal([]byte(task), &args); err != nil {
		t.Fatal(err)
	}
	load := LoadDirStored
	if args[1] != asStored {
		p, err := engine.ParsePrecision(args[1])
		if err != nil {
			t.Fatal(err)
		}
		load = func(dir string) (*model.Model, string, error) { return LoadDirPacked(dir, p) }
	}
	debug.FreeOSMemory()
	took := loadingTook{Before: status.RSS()}
	m, _, err := load(args[0])
	if err != nil {
		t.Fatal(err)
	}
	took.Peak, took.After, took.Weights = status.PeakRSS(), status.RSS(), uint64(m.Bytes())
	out, err := json.Marshal(took)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(out))
}

// saveBF16 writes a model of random weights in bfloat16.
func saveBF16(t *testing.T, cfg model.Config, dir string) {
	t.Helper()
	m, err := model.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	var tensors []checkpoint.Tensor
	for _, x := range m.Tensors() {
		values, err := x.Float32()
		if err != nil {
			t.Fatal(err)
		}
		y, err := checkpoint.ConvertTensor(x.Name, checkpoint.BF16, x.Shape, values)
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, y)
	}
	if err := disk.WriteFile(filepath.Join(dir, model.WeightsFile), func(w io.Writer) error {
		return checkpoint.WriteSafetensors(w, tensors, nil)
	}); err != nil {
		t.Fatal(err)
	}
}
