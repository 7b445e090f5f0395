// Package hub downloads published models by name into a local cache, and finds, lists and removes cached models.
//
// It uses the HTTP API of the Hugging Face hub. Files are stored in the cache of Python's huggingface_hub, in the same
// layout ("Hub Local Cache", https://huggingface.co/docs/hub/local-cache), so that both share downloads. Names in a
// list of files are checked before they are used as paths, sizes and checksums are verified, and the token is sent to
// the hub only. Any repository can be downloaded, whatever its family.
package hub

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MainRevision is the branch of a name without a revision.
const MainRevision = "main"

// Name identifies a model: a repository and, optionally, a revision, a file or a quantisation.
type Name struct {
	Repo     string   // org/name, or name alone
	Revision string   // branch, tag or commit; "" is main
	Files    []string // paths in the repository, instead of the default weights
	Quant    string   // the .gguf file of this quantisation, such as Q8_0
}

var (
	repoPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)?$`)
	// Those of llama.cpp.
	quantPattern  = regexp.MustCompile(`(?i)^(I?Q[1-8]_[A-Z0-9_]+|TQ[12]_0|MXFP4(_MOE)?|F16|F32|BF16)$`)
	commitPattern = regexp.MustCompile(`^[0-9a-f]{40}$`)
	sumPattern    = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// ParseName parses org/name, org/name:FILE, org/name:QUANTISATION, org/name:REVISION, or org/name:REVISION:FILE. A
// detail with the extension of a weights file is a file. One that llama.cpp uses for a quantisation is a quantisation.
func ParseName(text string) (Name, error) {
	repo, detail, hasDetail := strings.Cut(text, ":")
	const longest = 200
	if len(repo) > longest || !repoPattern.MatchString(repo) || strings.Contains(repo, "..") ||
		strings.Contains(repo, "--") || strings.HasSuffix(repo, ".git") {
		return Name{}, fmt.Errorf("found the name %.100q, want org/name, or org/name:file, :quantisation or :revision",
			text)
	}
	n := Name{Repo: repo}
	if revision, rest, ok := strings.Cut(detail, ":"); ok {
		n.Revision, detail = revision, rest
	}
	switch {
	case !hasDetail:
	case isWeights(detail):
		n.Files = []string{detail}
	case quantPattern.MatchString(detail):
		n.Quant = strings.ToUpper(detail)
	case n.Revision != "" || detail == "":
		return n, fmt.Errorf("%s: found %.100q after the colon, want a file of weights or a quantisation", repo,
			detail)
	default:
		n.Revision = detail
	}
	return n, n.check()
}

// check returns an error if a revision or a file is invalid.
func (n Name) check() error {
	if n.Revision != "" && !isSafePath(n.Revision) {
		return fmt.Errorf("%s: found the revision %.100q, want a branch, a tag or a commit", n.Repo, n.Revision)
	}
	for _, file := range n.Files {
		if !isSafePath(file) {
			return fmt.Errorf("%s: found the file %.100q, want a path inside the repository", n.Repo, file)
		}
	}
	if n.Quant != "" && len(n.Files) > 0 {
		return fmt.Errorf("%s: found the quantisation %s and the file %s, want one of them",
			n.Repo, n.Quant, n.Files[0])
	}
	return nil
}

// String returns the name in the form that ParseName reads.
func (n Name) String() string {
	text := n.Repo
	if n.revision() != MainRevision {
		text += ":" + n.Revision
	}
	switch {
	case len(n.Files) > 0:
		text += ":" + n.Files[0]
	case n.Quant != "":
		text += ":" + n.Quant
	}
	return text
}

// revision returns the revision, MainRevision by default.
func (n Name) revision() string {
	if n.Revision == "" {
		return MainRevision
	}
	return n.Revision
}

// isSafePath reports whether a path with slashes, from a list of files, stays inside its folder on any system, and is
// printable.
func isSafePath(p string) bool {
	const longest = 1000
	if p == "" || len(p) > longest || path.Clean(p) != p || strings.ContainsAny(p, `\:*?"<>|`) {
		return false
	}
	return !strings.ContainsFunc(p, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) &&
		p != "." && filepath.IsLocal(filepath.FromSlash(p))
}
