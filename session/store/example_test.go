package store_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
)

// A text that starts like an earlier one is read only from the point where they diverge.
func Example() {
	ctx := context.Background()
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.Layers = 16, 256, "mamba"
	m, err := model.New(c)
	if err != nil {
		log.Fatal(err)
	}
	m.Init(1)
	s, err := store.New(ctx, store.Options{
		Model: m, Identity: session.Identity{Model: "example", Chunk: session.Chunk(m)}, Memory: 64 << 20,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	system := make([]int32, 300) // the ids of a system prompt
	for _, question := range [][]int32{{1, 2, 3}, {4, 5}, {4, 5}} {
		plan := []session.Segment{{IDs: system}, {IDs: question}}
		_, found, err := s.Open(ctx, store.Reading{Runner: session.Direct{}, Plan: plan})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d tokens were there: %v\n", found.Cached, found.Miss)
	}
	// Output:
	// 0 tokens were there: nothing of it is stored
	// 300 tokens were there: edited at token 300
	// 302 tokens were there: nothing missed
}
