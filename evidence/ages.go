package evidence

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Ages adds a note for each result that is older than the code that it depends on. It reads the git history, if there
// is one.
func (b *Book) Ages(ctx context.Context, report *Report) error {
	if shallow, err := b.git(ctx, "rev-parse", "--is-shallow-repository"); err != nil || shallow != "false" {
		report.note("ages of results are not known: no whole history of git is here")
		return ctx.Err()
	}
	counted := map[string]int{} // number of commits by result commit and code; -1 if the history has no such commit
	for i := range b.recipes {
		r := &b.recipes[i]
		commits, err := b.commits(r)
		if err != nil {
			return err
		}
		for _, commit := range commits {
			key := fmt.Sprint(commit, r.Code)
			n, done := counted[key]
			if !done {
				if n, err = b.since(ctx, commit, slices.Concat(b.code, r.Code)); err != nil {
					n = -1
				}
				counted[key] = n
			}
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case n < 0:
				report.note("%s: %s is no commit of this history", r.Name, short(commit))
			case n > 0:
				report.note("%s: %d commits have changed its code since %s", r.Name, n, short(commit))
			}
		}
	}
	return nil
}

// commits returns the commits that a recipe's results were measured at.
func (b *Book) commits(r *Recipe) (all []string, err error) {
	add := func(commit string) {
		commit, _, _ = strings.Cut(commit, " ")
		if !slices.Contains(all, commit) {
			all = append(all, commit)
		}
	}
	if r.File != "" && b.kept(r) {
		_, origin, err := readRows(filepath.Join(b.root, r.File))
		if err != nil {
			return nil, err
		}
		add(origin.Commit)
	}
	for _, x := range b.of(r.Name) {
		add(x.Commit)
	}
	return all, nil
}

// isCommit matches the hash of a commit. Git may interpret anything else differently.
var isCommit = regexp.MustCompile(`^[0-9a-f]{7,40}$`)

// since returns the number of commits after the given one that changed the packages in code.
func (b *Book) since(ctx context.Context, commit string, code []string) (n int, err error) {
	if !isCommit.MatchString(commit) {
		return 0, fmt.Errorf("found the commit %q, want its number", commit)
	}
	text, err := b.git(ctx, append([]string{"rev-list", "--count", commit + "..HEAD", "--"}, code...)...)
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(text, &n)
	return n, err
}

func (b *Book) git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", b.root}, args...)...).Output()
	return strings.TrimSpace(string(out)), err
}

// short returns a commit's hash as abbreviated on pages.
func short(commit string) string { return commit[:min(7, len(commit))] }
