package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
)

// textsFolder is where in the folder of --store the states of texts lie. The models of a server share it: each finds
// what one with the same weights, precision and tokenizer has read.
const textsFolder = "texts"

// texts is the store of what a model reads, one of several models.
func (o *serveOptions) texts(ctx context.Context, m *hippo.Model, of int, log *slog.Logger) (*store.Store, error) {
	options := store.Options{
		Model: m.Net(), Identity: session.Identify(m.Net(), m.Tokenizer()), Memory: int64(o.Memory) << 20 / int64(of),
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

// flushTime is the most time for what is in memory to be written to disk at the end.
const flushTime = 30 * time.Second

// flush writes to disk what a model has read, so that the next server goes on from it.
func flush(texts *store.Store, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := errors.Join(texts.WriteTexts(ctx), texts.Flush(ctx)); err != nil {
		log.Warn("not all that has been read is on disk: the next server reads it again", "error", err.Error())
	}
	texts.Close()
}
