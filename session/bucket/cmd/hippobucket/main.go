// Command hippobucket copies what hippo serve has read between the folder of its --store and a bucket, so that servers
// on other machines continue from it:
//
//	cd session/bucket && go build ./cmd/hippobucket
//	hippobucket pull state/texts s3://NAME?region=eu-west-1
//	hippo serve MODEL --store state
//	hippobucket push state/texts s3://NAME?region=eu-west-1
//
// Each copies what the other side does not have. Both can be run at any time, also beside a server, which finds what
// has come within a second. URLs are those of gocloud.dev/blob: s3://, gs://, azblob:// and file:///, with credentials
// from the usual places of each cloud.
//
// It is a program of its own because the drivers are larger than hippo, and because a program with them has another
// version of golang.org/x/text, with which some texts have other tokens: see decision 18.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/hippo-ssm/hippo/session/bucket"
	_ "github.com/hippo-ssm/hippo/session/bucket/cloud"
	"github.com/hippo-ssm/hippo/session/store"
)

const usage = "usage: hippobucket push|pull FOLDER URL\n" +
	"for example: hippobucket push state/texts s3://NAME?region=eu-west-1"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	n, err := run(ctx, os.Args[1:])
	if n > 0 || err == nil {
		fmt.Printf("%d objects were copied\n", n)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hippobucket:", err)
		os.Exit(1)
	}
}

// run does what the arguments say, and returns how many objects were copied.
func run(ctx context.Context, args []string) (copied int, err error) {
	if len(args) != 3 || args[0] != "push" && args[0] != "pull" {
		return 0, fmt.Errorf("found %d arguments, want 3\n%s", len(args), usage)
	}
	folder := store.Folder(args[1])
	if info, err := os.Stat(args[1]); args[0] == "push" && (err != nil || !info.IsDir()) {
		return 0, fmt.Errorf("%s: found no folder, want the texts of a --store", args[1])
	}
	b, err := bucket.Open(ctx, args[2])
	if err != nil {
		return 0, err
	}
	defer b.Close()
	if args[0] == "push" {
		return bucket.Copy(ctx, b, folder)
	}
	return bucket.Copy(ctx, folder, b)
}
