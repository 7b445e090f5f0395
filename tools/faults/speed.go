package main

import (
	"cmp"
	"context"
	"strings"

	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/watch"
)

// speed returns the number of lines of 100 bytes that one core reads in a second, from one stream and from 16 streams
// together, with the model shape of hippo watch --train and with the preset tiny.
func speed() (rows []map[string]any, err error) {
	for _, preset := range []string{"", "tiny"} {
		cfg, err := watch.TrainConfig(preset, "", 1)
		if err != nil {
			return nil, err
		}
		cfg.Model.VocabSize = 256
		m, err := model.New(cfg.Model)
		if err != nil {
			return nil, err
		}
		m.Init(1)
		for _, streams := range []int{1, 16} {
			w, err := watch.New(m, tokenizer.Bytes(), nil, watch.DefaultOptions())
			if err != nil {
				return nil, err
			}
			var lines []watch.Line
			for i := range streams {
				text := strings.Repeat("0123456789", 10)[1:] + "\n"
				lines = append(lines, watch.Line{Stream: w.Stream(string(rune('a' + i))), Text: []byte(text)})
			}
			const seconds = 3
			read, began := 0, status.CPUTime().Seconds()
			for status.CPUTime().Seconds() < began+seconds {
				if _, err := w.Read(context.Background(), lines...); err != nil {
					return nil, err
				}
				read += streams
			}
			per := float64(read) / (status.CPUTime().Seconds() - began)
			rows = append(rows, map[string]any{"model": m.Config.Mixer, "preset": cmp.Or(preset, "(watch)"),
				"parameters": m.NumParams(), "streams": streams, "lines_per_second": per,
				"kb_per_second": per * 100 / 1000})
		}
	}
	return rows, nil
}
