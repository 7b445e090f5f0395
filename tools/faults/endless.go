package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/watch"
)

// endless reads n short lines with a tiny model, which takes the same steps for each line as a large one. It returns
// rows of the memory in use after 1, 2, 4, 8 and 10 tenths of the lines.
func endless(n int) (rows []map[string]any, err error) {
	c := model.DefaultConfig()
	c.VocabSize, c.DModel, c.Layers, c.MLP = 256, 8, "mamba2(d_state=4,headdim=4)", model.MLPNone
	m, err := model.New(c)
	if err != nil {
		return nil, err
	}
	m.Init(1)
	w, err := watch.New(m, tokenizer.Bytes(), nil, watch.DefaultOptions())
	if err != nil {
		return nil, err
	}
	lines, s := make(chan watch.Line, 64), w.Stream("")
	r := &watch.Reader{MaxLine: 100, Lines: lines}
	failed := make(chan error, 1)
	go func() {
		failed <- r.Pipe(context.Background(), s, &repeated{n: n})
		close(lines)
	}()
	began, next := time.Now(), int64(n/10)
	err = w.Run(context.Background(), lines, func([]watch.Report) error {
		if s.Lines < next {
			return nil
		}
		next = min(2*next, int64(n))
		if s.Lines == int64(n) {
			next = int64(n) + 1
		}
		runtime.GC()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		rows = append(rows, map[string]any{"lines": s.Lines, "alarms": s.Alarms, "seconds": time.Since(began).Seconds(),
			"heap_kb": memory.HeapAlloc / 1000, "rss_mb": float64(status.RSS()) / 1e6})
		fmt.Println(rows[len(rows)-1])
		return nil
	})
	if err == nil {
		err = <-failed
	}
	return rows, err
}

// repeated is a reader of n similar lines. Every thousandth line is a different one.
type repeated struct {
	n, at int
	rest  string
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.rest == "" {
		if r.at == r.n {
			return 0, io.EOF
		}
		if r.at++; r.at%1000 == 0 {
			r.rest = fmt.Sprintln("no", r.at)
		} else {
			r.rest = strings.Repeat("ok", 1+r.at%3) + "\n"
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
