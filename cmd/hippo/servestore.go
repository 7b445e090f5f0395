package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
)

// textsFolder is where in the folder of --store the states of texts lie. The models of a server share it: each finds
// what one with the same weights, precision and tokenizer has read.
const textsFolder = "texts"

// texts is the store of what a model reads. The server gives it its part of the memory.
func (o *serveOptions) texts(ctx context.Context, m *hippo.Model, log *slog.Logger) (*store.Store, error) {
	options := store.Options{
		Model: m.Net(), Identity: session.Identify(m.Net(), m.Tokenizer()), Memory: int64(o.Memory) << 20,
		Disk:   int64(o.Disk) << 20,
		Report: func(err error) { log.Warn("what has been read could not be kept on disk", "error", err.Error()) },
	}
	if o.Store != "" {
		// What clients say is nobody else's to read.
		if err := os.MkdirAll(o.Store, 0o700); err != nil {
			return nil, fmt.Errorf("--store: %w", err)
		}
		options.Bucket = store.Folder(filepath.Join(o.Store, textsFolder))
	}
	return store.New(ctx, options)
}
