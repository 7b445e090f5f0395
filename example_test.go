package hippo_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/train"
)

// A model is loaded from a folder: that of a training run, such as runs/tiny, or one that hippo convert wrote.
func ExampleLoad() {
	m, err := hippo.Load(whale)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.NumParams(), "parameters,", m.Tokenizer().VocabSize(), "characters")
	// Output: 28640 parameters, 14 characters
}

// A session reads a prompt and generates its continuation piece by piece.
func ExampleSession_Generate() {
	m, err := hippo.Load(whale)
	if err != nil {
		log.Fatal(err)
	}
	options := hippo.DefaultOptions()
	options.Temperature = 0 // always the most probable character
	options.MaxTokens = 100
	options.Stop = []string{"."}

	for piece, err := range m.NewSession().Generate(context.Background(), "the whale", options) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(piece)
	}
	// Output:  swims in the sea
}

// A fork is an independent session in the same state. So a prompt is read once for any number of continuations.
func ExampleSession_Fork() {
	m, err := hippo.Load(whale)
	if err != nil {
		log.Fatal(err)
	}
	options := hippo.DefaultOptions()
	options.Temperature = 0
	options.Stop = []string{"."}

	read := m.NewSession()
	if err := read.Append(context.Background(), "the whale swims in the sea. the "); err != nil {
		log.Fatal(err)
	}
	for _, start := range []string{"wh", "sa"} {
		fmt.Print(start)
		for piece, err := range read.Fork().Generate(context.Background(), start, options) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Print(piece)
		}
		fmt.Println()
	}
	// Output:
	// whale swims in the sea
	// sailor waits
}

// A session is saved, continues in another process, and returns to a mark without reading any text again.
func ExampleSession_Save() {
	m, err := hippo.Load(whale)
	if err != nil {
		log.Fatal(err)
	}
	ctx, s := context.Background(), m.NewSession()
	if err := s.Append(ctx, "the whale swims in the sea. "); err != nil {
		log.Fatal(err)
	}
	s.Mark("beginning")
	dir, err := os.MkdirTemp("", "hippo")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "whale.session")
	if err := s.Save(path, hippo.SaveOptions{}); err != nil {
		log.Fatal(err)
	}

	s, err = m.LoadSession(path, nil) // perhaps in another process
	if err != nil {
		log.Fatal(err)
	}
	s.SetMarks(1 << 20) // store states for Rewind
	options := hippo.DefaultOptions()
	options.Temperature = 0
	options.Stop = []string{"."}
	for _, start := range []string{"the wh", "the sa"} {
		for piece, err := range s.Generate(ctx, start, options) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Print(piece)
		}
		again, err := s.RewindTo(ctx, "beginning")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf(" (%d tokens read again)\n", again)
	}
	// Output:
	// ale swims in the sea (0 tokens read again)
	// ilor waits (0 tokens read again)
}

// The dot product of two embeddings measures how similar their texts are.
func ExampleModel_Embed() {
	m, err := hippo.Load(whale)
	if err != nil {
		log.Fatal(err)
	}
	texts := []string{"the whale swims", "the whale swims in", "aaaaaaa"}
	vectors, err := m.Embed(context.Background(), texts...)
	if err != nil {
		log.Fatal(err)
	}
	for i, v := range vectors {
		like := 0.0
		for j, x := range v {
			like += float64(x) * float64(vectors[0][j])
		}
		fmt.Printf("%-18s %.2f\n", texts[i], like)
	}
	// Output:
	// the whale swims    1.00
	// the whale swims in 0.96
	// aaaaaaa            0.08
}

// A context can interrupt the reading of a long text. A callback reports progress.
func ExampleSession_Append() {
	m, err := hippo.Load(whale)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	s := m.NewSession()
	s.SetProgress(func(read, total int) { fmt.Println("read", read, "of", total, "characters") })
	if err := s.Append(ctx, strings.Repeat("the whale swims. ", 64)); err != nil {
		log.Fatal(err) // context.DeadlineExceeded after a minute
	}
	// Output:
	// read 512 of 1088 characters
	// read 1024 of 1088 characters
	// read 1088 of 1088 characters
}

// Samples are continuations of one prompt. Several are generated at a time, so their pieces alternate. Each sample
// depends only on its seed.
func ExampleSession_Samples() {
	m, err := hippo.Load(whale)
	if err != nil {
		log.Fatal(err)
	}
	options := hippo.DefaultOptions()
	options.MaxTokens = 25
	options.Seed = 7 // seed of the first sample; the second has 8

	texts := make([]string, 3)
	err = m.NewSession().Samples(context.Background(), "the ", len(texts), options, func(p generate.Piece) error {
		texts[p.Sample] += string(p.Text)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, text := range texts {
		fmt.Println(len(text), "characters")
	}
	// Output:
	// 25 characters
	// 25 characters
	// 25 characters
}

// Train takes the settings of a preset, which can be changed, and reports progress. Load reads the folder of the run.
func ExampleTrain() {
	cfg, err := hippo.Preset("tiny")
	if err != nil {
		log.Fatal(err)
	}
	cfg.Data = []string{filepath.Join(temp, "whale.txt")}
	cfg.Out = filepath.Join(temp, "h3")
	cfg.Cache = "none"
	cfg.Model.Layers, cfg.Model.DModel, cfg.Model.DState = "h3*2", 16, 16
	cfg.Train.Steps, cfg.Train.BatchSize, cfg.Train.SeqLen, cfg.Train.SampleEvery = 6, 2, 64, 0

	result, err := hippo.Train(context.Background(), cfg, hippo.TrainEvents{
		Start: func(s train.Start) {
			fmt.Println(s.TrainTokens, "tokens for training,", s.ValidTokens, "for validation")
		},
		Eval: func(p train.Progress) { fmt.Println("measured at step", p.Step) },
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("done after", result.Tokens, "tokens; it guesses better than at random:", result.ValidLoss < 5.5)
	fmt.Println("the model is in", strings.TrimPrefix(filepath.ToSlash(result.Out), filepath.ToSlash(temp)+"/"))
	// Output:
	// 4140 tokens for training, 460 for validation
	// measured at step 6
	// done after 768 tokens; it guesses better than at random: true
	// the model is in h3
}
