// Package bucket opens buckets of gocloud.dev/blob for a session/store: folders, memory, and any service whose driver
// the program links, such as S3, Google Cloud Storage and Azure (package session/bucket/cloud). It is a separate
// module, so that hippo does not depend on gocloud.dev: see decision 18.
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

// Bucket is a bucket of gocloud.dev/blob as a store.Bucket.
type Bucket struct {
	blob *blob.Bucket
	name string
}

var _ store.Bucket = (*Bucket)(nil)

// Open opens the bucket of a URL, such as s3://NAME?region=eu-west-1&prefix=hippo/ or file:///var/lib/hippo: see
// blob.OpenBucket. Close must be called.
func Open(ctx context.Context, url string) (*Bucket, error) {
	b, err := blob.OpenBucket(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", url, err)
	}
	return New(b, url), nil
}

// New returns a bucket that is open, with a name for errors.
func New(b *blob.Bucket, name string) *Bucket { return &Bucket{b, name} }

// Close closes the bucket.
func (b *Bucket) Close() error { return b.blob.Close() }

// Get is store.Bucket.Get.
func (b *Bucket) Get(ctx context.Context, name string) ([]byte, error) {
	data, err := b.blob.ReadAll(ctx, name)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return data, err
}

// Put is store.Bucket.Put. Drivers put a whole object in place, or none.
func (b *Bucket) Put(ctx context.Context, name string, data []byte) error {
	return b.blob.WriteAll(ctx, name, data, &blob.WriterOptions{ContentType: "application/octet-stream"})
}

// Delete is store.Bucket.Delete.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	if err := b.blob.Delete(ctx, name); gcerrors.Code(err) != gcerrors.NotFound {
		return err
	}
	return nil
}

// List is store.Bucket.List.
func (b *Bucket) List(ctx context.Context, visit func(name string)) error {
	all := b.blob.List(nil)
	for {
		o, err := all.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		visit(o.Key)
	}
}

// String is the name.
func (b *Bucket) String() string { return b.name }
