// Package bucket opens buckets of gocloud.dev/blob for a session/store: folders, memory, and services whose driver the
// program links, such as S3, Google Cloud Storage and Azure (package session/bucket/cloud). It is a separate module so
// that hippo does not depend on gocloud.dev: see decision 18.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // file://
	_ "gocloud.dev/blob/memblob"  // mem://
	"gocloud.dev/gcerrors"

	"github.com/hippo-ssm/hippo/session/store"
)

// Bucket adapts a bucket of gocloud.dev/blob to store.Bucket.
type Bucket struct {
	blob *blob.Bucket
	name string
}

var _ store.Shared = (*Bucket)(nil)

func init() { Register("mem") }

// Register makes store.Connect open URLs of the given schemes, whose drivers the program must link.
func Register(schemes ...string) {
	for _, scheme := range schemes {
		store.Register(scheme, func(ctx context.Context, url string) (store.Shared, error) { return Open(ctx, url) })
	}
}

// Open opens the bucket of a URL, such as s3://NAME?region=eu-west-1&prefix=hippo/ or file:///var/lib/hippo; see
// blob.OpenBucket. The caller must call Close.
func Open(ctx context.Context, url string) (*Bucket, error) {
	b, err := blob.OpenBucket(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", url, err)
	}
	return New(b, url), nil
}

// New wraps an open bucket. The name is used in errors.
func New(b *blob.Bucket, name string) *Bucket { return &Bucket{b, name} }

// Close closes the bucket.
func (b *Bucket) Close() error { return b.blob.Close() }

// Get implements store.Bucket.
func (b *Bucket) Get(ctx context.Context, name string) ([]byte, error) {
	data, err := b.blob.ReadAll(ctx, name)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return data, err
}

// Put implements store.Bucket. Drivers write an object atomically.
func (b *Bucket) Put(ctx context.Context, name string, data []byte) error {
	return b.blob.WriteAll(ctx, name, data, &blob.WriterOptions{ContentType: "application/octet-stream"})
}

// Create implements store.Shared.
func (b *Bucket) Create(ctx context.Context, name string, data []byte) error {
	err := b.blob.WriteAll(ctx, name, data, &blob.WriterOptions{
		ContentType: "application/octet-stream", IfNotExist: true,
	})
	if gcerrors.Code(err) == gcerrors.FailedPrecondition {
		return fmt.Errorf("%w: %w", fs.ErrExist, err)
	}
	return err
}

// Delete implements store.Bucket.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	if err := b.blob.Delete(ctx, name); gcerrors.Code(err) != gcerrors.NotFound {
		return err
	}
	return nil
}

// List implements store.Bucket.
func (b *Bucket) List(ctx context.Context, visit func(name string)) error {
	return b.Find(ctx, "", func(e store.Entry) { visit(e.Name) })
}

// Find implements store.Shared.
func (b *Bucket) Find(ctx context.Context, prefix string, visit func(store.Entry)) error {
	all := b.blob.List(&blob.ListOptions{Prefix: prefix})
	for {
		o, err := all.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		visit(store.Entry{Name: o.Key, Bytes: o.Size, Time: o.ModTime})
	}
}

// String returns the name.
func (b *Bucket) String() string { return b.name }
