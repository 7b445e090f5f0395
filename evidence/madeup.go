package evidence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// writeMadeUp writes made-up data in the format of each task's files. It leaves existing folders alone.
func writeMadeUp(dir string) error {
	rng := rand.New(rand.NewPCG(1, 2))
	for folder, files := range map[string]map[string][]byte{
		"mnist": {
			"train-images-idx3-ubyte": images(rng, 300), "train-labels-idx1-ubyte": labels(300),
			"t10k-images-idx3-ubyte": images(rng, 30), "t10k-labels-idx1-ubyte": labels(30),
		},
		"ecg":    {"ecg_mV_float32.raw": heartbeat(40000)},
		"genome": {"made-up.fa": genome(rng, 40000)},
		"ett":    {"ETTh1.csv": hours(), "ETTh2.csv": hours()},
		"fsdd":   recordings(),

		"tinyshakespeare": {"input.txt": words(rng, 60000)},

		"wikitext2": {"train.txt": words(rng, 60000), "valid.txt": words(rng, 6000), "test.txt": words(rng, 6000)},
	} {
		if _, err := os.Stat(filepath.Join(dir, folder)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		for name, text := range files {
			path := filepath.Join(dir, folder, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(path, text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// idx returns a file in MNIST's format.
func idx(magic uint32, data []byte, sizes ...uint32) []byte {
	head, _ := binary.Append(nil, binary.BigEndian, append([]uint32{magic}, sizes...))
	return append(head, data...)
}

func images(rng *rand.Rand, n int) []byte {
	pixels := make([]byte, n*28*28)
	for i := range pixels {
		pixels[i] = byte(rng.Uint32())
	}
	return idx(0x803, pixels, uint32(n), 28, 28)
}

func labels(n int) []byte {
	all := make([]byte, n)
	for i := range all {
		all[i] = byte(i % 10)
	}
	return idx(0x801, all, uint32(n))
}

func heartbeat(n int) []byte {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)/40) + 3*math.Exp(-math.Pow(float64(i%360)-180, 2)/20))
	}
	text, _ := binary.Append(nil, binary.LittleEndian, x)
	return text
}

func genome(rng *rand.Rand, n int) []byte {
	text := bytes.NewBufferString(">made up")
	for i := range n {
		if i%60 == 0 {
			text.WriteByte('\n')
		}
		text.WriteByte("ACGT"[rng.IntN(4)])
	}
	return append(text.Bytes(), '\n')
}

// hours returns twenty months of thirty days, the length that the published split needs.
func hours() []byte {
	text := bytes.NewBufferString("date,HUFL,HULL,MUFL,MULL,LUFL,LULL,OT\n")
	start := time.Date(2016, 7, 1, 0, 0, 0, 0, time.UTC)
	for i := range 20 * 30 * 24 {
		text.WriteString(start.Add(time.Duration(i) * time.Hour).Format("2006-01-02 15:04:05"))
		for v := range 7 {
			fmt.Fprintf(text, ",%.3f", 10+float64(v)+math.Sin(float64(i)*math.Pi/12))
		}
		text.WriteByte('\n')
	}
	return text.Bytes()
}

// recordings returns recordings of two digits by one speaker, takes 0 to 9, a tenth of a second each.
func recordings() map[string][]byte {
	all := map[string][]byte{}
	for digit := range 2 {
		for take := range 10 {
			samples := make([]int16, 800)
			for i := range samples {
				samples[i] = int16(8000 * math.Sin(float64(i*(digit+1)*(20+take))/100))
			}
			data, _ := binary.Append(nil, binary.LittleEndian, samples)
			format, _ := binary.Append(nil, binary.LittleEndian, struct {
				kind, channels uint16
				rate, bytes    uint32
				align, bits    uint16
			}{1, 1, 8000, 16000, 2, 16})
			chunk := func(name string, data []byte) []byte {
				size, _ := binary.Append([]byte(name), binary.LittleEndian, uint32(len(data)))
				return append(size, data...)
			}
			body := append([]byte("WAVE"), append(chunk("fmt ", format), chunk("data", data)...)...)
			all[fmt.Sprintf("recordings/%d_nobody_%d.wav", digit, take)] = chunk("RIFF", body)
		}
	}
	return all
}

func words(rng *rand.Rand, n int) []byte {
	list := strings.Fields("a state of constant size reads text any length and the model writes what it has learnt")
	var text bytes.Buffer
	for text.Len() < n {
		text.WriteString(list[rng.IntN(len(list))] + " ")
	}
	return text.Bytes()
}
