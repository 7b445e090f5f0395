package session_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// Many sessions write at once. The scheduler advances all of them by one token in each call of the model.
func ExampleScheduler() {
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.Layers, c.DState = 16, 256, "mamba,mamba", 8
	m, err := model.New(c)
	if err != nil {
		fmt.Println(err)
		return
	}
	m.Init(1)
	scheduler := session.NewScheduler(m, session.SchedulerOptions{Running: 8})
	defer scheduler.Close()

	tok, ctx := tokenizer.Bytes(), context.Background()
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			s := session.New(m, tok, session.Options{Runner: scheduler, Client: fmt.Sprint("user ", i%3)})
			defer s.Close()
			if err := s.AppendText(ctx, "Call me"); err != nil {
				fmt.Println(err)
			}
			o := generate.DefaultOptions()
			o.Seed, o.MaxTokens, o.IgnoreEnd = uint64(i), 30, true
			for _, err := range s.Generate(ctx, o) {
				if err != nil {
					fmt.Println(err)
				}
			}
		})
	}
	all.Wait()
	stats := scheduler.Stats()
	fmt.Println(stats.Read, "tokens read;", stats.Ended, "requests ended,", stats.Failed, "of them failed")
	// Output: 140 tokens read; 40 requests ended, 0 of them failed
}
