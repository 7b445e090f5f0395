package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// maxListing is the maximum size in bytes. It is enough for the listing of a repository with 100,000 files.
const maxListing = 32 << 20

// listing is a hub's description of a revision.
type listing struct {
	commit string
	files  []File
	unsafe []string // invalid file names
}

// address returns an address at the hub.
func (c *Client) address(parts ...string) string {
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return c.endpoint.String() + "/" + strings.Join(parts, "/")
}

// list requests the files of a revision with their sizes and sums.
func (c *Client) list(ctx context.Context, n Name) (*listing, error) {
	parts := append([]string{"api", "models"}, strings.Split(n.Repo, "/")...)
	address := c.address(append(parts, "revision", n.revision())...) + "?blobs=true"
	text, err := c.small(ctx, n.Repo, address, maxListing)
	if err != nil {
		return nil, err
	}
	return parseListing(n, text)
}

// parseListing parses a response of the hub. It puts invalid file names into unsafe.
func parseListing(n Name, text []byte) (*listing, error) {
	var said struct {
		Commit string `json:"sha"`
		Files  []struct {
			Path  string `json:"rfilename"`
			Size  *int64 `json:"size"`
			GitID string `json:"blobId"`
			Large *struct {
				Size   int64  `json:"size"`
				SHA256 string `json:"sha256"`
			} `json:"lfs"`
		} `json:"siblings"`
	}
	where := fmt.Sprintf("what the hub says of %s", n.Repo)
	if err := json.Unmarshal(text, &said); err != nil {
		return nil, brief.Error(fmt.Errorf("%s: %w", where, err))
	}
	if !commitPattern.MatchString(said.Commit) {
		return nil, fmt.Errorf("%s: found the commit %.50q, want 40 hexadecimal digits", where, said.Commit)
	}
	if commitPattern.MatchString(n.Revision) && said.Commit != n.Revision {
		return nil, fmt.Errorf("%s: found the commit %s, want %s", where, said.Commit, n.Revision)
	}
	l := &listing{commit: said.Commit}
	for _, s := range said.Files {
		f := File{Path: s.Path, GitID: s.GitID, Size: -1}
		if s.Size != nil {
			f.Size = *s.Size
		}
		if s.Large != nil {
			f.Size, f.SHA256, f.GitID = s.Large.Size, s.Large.SHA256, ""
		}
		if !isSafePath(f.Path) {
			l.unsafe = append(l.unsafe, brief.Line(f.Path))
			continue
		}
		l.files = append(l.files, f)
	}
	return l, nil
}

// checkable returns an error if the hub's entry does not suffice to verify the file.
func (f File) checkable() error {
	isSum := sumPattern.MatchString(f.SHA256) || f.SHA256 == "" && commitPattern.MatchString(f.GitID)
	if !isSum || f.Size < 0 {
		return fmt.Errorf("%s: the hub lists a size of %d and the sum %.80q, want both to check it by", f.Path, f.Size,
			f.sum())
	}
	return nil
}

// small reads a response of at most limit bytes.
func (c *Client) small(ctx context.Context, what, address string, limit int64) ([]byte, error) {
	for try := 0; ; try++ {
		text, err := c.readSmall(ctx, address, limit)
		if err == nil {
			return text, nil
		}
		if err := c.again(ctx, what, err, try); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
	}
}

func (c *Client) readSmall(ctx context.Context, address string, limit int64) ([]byte, error) {
	a, err := c.get(ctx, address, nil)
	if err != nil {
		return nil, err
	}
	defer a.close()
	text, err := io.ReadAll(io.LimitReader(a, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("the hub responds with more than %d bytes, the limit", limit)
	}
	return text, err
}

// fileAddress returns the address of a file of a commit.
func (c *Client) fileAddress(n Name, commit, file string) string {
	parts := append(strings.Split(n.Repo, "/"), "resolve", commit)
	return c.address(append(parts, strings.Split(file, "/")...)...)
}

// content reads a small file of a repository, such as an index, into memory.
func (c *Client) content(ctx context.Context, n Name, commit string, f File) ([]byte, error) {
	if err := f.checkable(); err != nil {
		return nil, err
	}
	text, err := c.small(ctx, f.Path, c.fileAddress(n, commit, f.Path), disk.MaxText)
	if err != nil {
		return nil, err
	}
	sum := f.hash()
	sum.Write(text)
	return text, f.check(int64(len(text)), sum)
}
