package watch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/watch"
)

// BenchmarkRead reads lines of 100 bytes, one at a time as from one stream and of 16 streams together, with the shape of
// hippo watch --train and with the preset tiny.
func BenchmarkRead(b *testing.B) {
	for name, preset := range map[string]string{"small": "", "tiny": "tiny"} {
		for _, streams := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d", name, streams), func(b *testing.B) {
				cfg, err := watch.TrainConfig(preset, "", 1)
				if err != nil {
					b.Fatal(err)
				}
				cfg.Model.VocabSize = 256
				m, err := model.New(cfg.Model)
				if err != nil {
					b.Fatal(err)
				}
				m.Init(1)
				w, err := watch.New(m, tokenizer.Bytes(), nil, watch.DefaultOptions())
				if err != nil {
					b.Fatal(err)
				}
				var lines []watch.Line
				for i := range streams {
					s := w.Stream(string(rune('a' + i)))
					lines = append(lines, watch.Line{Stream: s, Text: []byte(strings.Repeat("0123456789", 10)[1:] + "\n")})
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := w.Read(b.Context(), lines...); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(streams)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
			})
		}
	}
}
