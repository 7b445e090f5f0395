package train

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/optim"
	"github.com/hippo-ssm/hippo/tensor"
)

// FuzzMoments checks that restoring any optimizer.safetensors succeeds or returns an error, in bounded memory.
func FuzzMoments(f *testing.F) {
	path := filepath.Join(f.TempDir(), optimizerFile)
	x := tensor.New(3, 2)
	opt := optim.NewAdamW(cpu.Backend{}, []optim.Param{{Tensor: x, Name: "x"}}, 0.9, 0.99, 1e-8, 1)
	var moments []checkpoint.Tensor
	opt.Moments(func(name string, x *tensor.Tensor) {
		moments = append(moments, checkpoint.NewTensor(name, x.Shape(), x.Elements()))
	})
	if err := WriteTensors(path, moments); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if restoreMoments(path, opt.SetMoments) == nil {
			opt.Step([]*tensor.Tensor{tensor.New(3, 2)}, 1, 1)
		}
		runtime.ReadMemStats(&after)
		if n := int(after.TotalAlloc - before.TotalAlloc); n > 1<<20+64*len(data) {
			t.Errorf("%d bytes were allocated", n)
		}
	})
}
