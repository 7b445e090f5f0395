// Package cloud links the drivers of S3 (and compatible services), Google Cloud Storage and Azure into a program that
// opens buckets by URL. They add 34 MB to the program; see decision 18.
package cloud

import (
	"github.com/hippo-ssm/hippo/session/bucket"

	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	_ "gocloud.dev/blob/s3blob"    // s3://
)

func init() { bucket.Register("s3", "gs", "azblob") }
