// Package cloud links the drivers of S3 and what is compatible with it, of Google Cloud Storage and of Azure into a
// program that opens buckets by their URLs. They add 34 MB to it: see decision 18.
package cloud

import (
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	_ "gocloud.dev/blob/s3blob"    // s3://
)
