package evidence

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// quick limits the time of rows that Rerun computes.
const quick = time.Minute

// Rerun computes quick rows again with their first seeds, those with the shortest time first, as long as their total
// time is within limit. A score outside of its row's expected range is a fault. Rerun returns the number of rows that
// it ran, and the number that it could run.
func (b *Book) Rerun(ctx context.Context, u *Runner, limit time.Duration, r *Report) (ran, all int, err error) {
	rows := rowsOf(b.results)
	rows = slices.DeleteFunc(rows, func(row []result) bool {
		recipe := b.recipe(row[0].Command)
		return recipe == nil || recipe.One == "" || len(row) < leastSeeds || took(row) >= quick ||
			expected(row).any(row[0].Unit) || recipe.Data != "" && !b.has(u, recipe.Data)
	})
	slices.SortStableFunc(rows, func(x, y []result) int { return int(took(x) - took(y)) })
	for _, row := range rows {
		if limit -= took(row); limit < 0 {
			break
		}
		if err := b.rerunRow(ctx, u, row, r); err != nil {
			return ran, len(rows), err
		}
		ran++
	}
	return ran, len(rows), nil
}

// took returns the average time of a row's seeds.
func took(row []result) time.Duration {
	seconds := 0.
	for _, r := range row {
		seconds += r.CPU / float64(len(row))
	}
	return time.Duration(seconds * float64(time.Second))
}

// dataOf returns the path of a recipe's folder of data.
func (b *Book) dataOf(u *Runner, folder string) string {
	if dir := filepath.Join(b.root, "runs", "data", folder); u.Data == "" || disk.IsFolder(dir) {
		return dir
	}
	return filepath.Join(u.Data, folder)
}

func (b *Book) has(u *Runner, folder string) bool { return disk.IsFolder(b.dataOf(u, folder)) }

// rerunRow computes a row again with its first seed.
func (b *Book) rerunRow(ctx context.Context, u *Runner, row []result, report *Report) error {
	first := row[0]
	tmp, err := os.MkdirTemp("", "evidence-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	recipe := b.recipe(first.Command)
	data, err := filepath.Abs(b.dataOf(u, recipe.Data))
	if err != nil {
		return err
	}
	out := filepath.Join(tmp, first.Command)
	said, err := u.shell(ctx, tmp, recipe.One, "task="+first.Task, "model="+first.Model,
		fmt.Sprintf("seed=%d", first.Seed), "data="+data, "out="+out)
	if err != nil {
		return err
	}
	found, err := readRun(filepath.Join(out, "result.json"))
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", recipe.One, err, said)
	}
	want := expected(row)
	line := fmt.Sprintf("%s: %s, %s, seed %d: %s %s again", first.Command, first.Task, first.Model, first.Seed,
		number(found.Score, found.Unit), found.Unit)
	if found.Task != first.Task || found.Model != first.Model || found.Unit != first.Unit ||
		found.Score < want.low || found.Score > want.high {
		report.fault("%s, want %s", line, strings.TrimSpace(want.text(first.Unit)))
		return nil
	}
	fmt.Fprintf(u.Out, "%s, of %s\n", line, want.text(first.Unit))
	return nil
}
