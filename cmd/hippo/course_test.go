package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/explain/course"
	"github.com/hippo-ssm/hippo/explain/theory"
)

// Patterns of the commands that pages tell to type: shell blocks, and checks of exercises inside a text. Also those of
// the words of a command and of pictures.
var (
	shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	checkSpan  = regexp.MustCompile("`(hippo course check (\\S+) (?:-- )?)ANSWER`")
	shellWord  = regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`)
	pictureOf  = regexp.MustCompile(`!\[[^\]]+\]\(([^)]+)\)`)
)

// takePictures is set after a change of what a command draws.
var takePictures = flag.Bool("pictures", false, "take the pictures of docs/course over from its commands")

// TestCourseCommandsRun runs every command of docs/course as it is written, each page in its own folder, and checks
// every exercise with its answer in place of ANSWER.
func TestCourseCommandsRun(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "course", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := len(course.Chapters()) + 1; len(pages) != want { // the chapters and an overview
		t.Errorf("found %d pages, want %d", len(pages), want)
	}
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			lines := commandsOf(t, string(data))
			if len(lines) == 0 {
				t.Error("found no command")
			}
			dir := t.TempDir()
			for _, line := range lines {
				args := shellWord.FindAllString(line, -1)
				for i := range args {
					args[i] = strings.Trim(args[i], `"'`)
				}
				out, err := command(dir, args[1:]...).CombinedOutput()
				if err != nil {
					t.Errorf("%s: %v\n%s", line, err, out)
				}
				if len(out) == 0 {
					t.Errorf("%s: found nothing printed", line)
				}
			}
			for _, picture := range pictureOf.FindAllStringSubmatch(string(data), -1) {
				drawn, err := os.ReadFile(filepath.Join(dir, picture[1]))
				if err != nil {
					t.Errorf("found no command on this page that draws %s", picture[1])
				} else if *takePictures {
					err = os.WriteFile(filepath.Join(filepath.Dir(page), picture[1]), drawn, 0o666)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// commandsOf returns the commands of a page: those in blocks, in order, and then the checks with their answers.
func commandsOf(t *testing.T, text string) []string {
	t.Helper()
	var lines []string
	for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "hippo ") {
				t.Errorf("found the line %q, want commands of hippo only", line)
				continue
			}
			lines = append(lines, line)
		}
	}
	for _, span := range checkSpan.FindAllStringSubmatch(text, -1) {
		e, err := course.Find(span[2])
		if err != nil {
			t.Error(err)
			continue
		}
		answer, err := e.Answer()
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, span[1]+answer)
	}
	return lines
}

// TestTheoryExamplesRun runs the examples in the help of hippo explain ssm. The files that they name hold a signal.
func TestTheoryExamplesRun(t *testing.T) {
	t.Chdir(t.TempDir())
	var prices strings.Builder
	prices.WriteString("day,close\n")
	for k := range 100 {
		fmt.Fprintf(&prices, "%d,%d\n", k, k*k%17)
	}
	for _, view := range theory.Views() {
		for line := range strings.Lines(view.Example) {
			line, _, _ = strings.Cut(line, "#")
			args := shellWord.FindAllString(line, -1)[1:]
			for i := range args {
				args[i] = strings.Trim(args[i], `"'`)
				if ext := filepath.Ext(args[i]); args[max(0, i-1)] == "--signal" && (ext == ".csv" || ext == ".wav") {
					if err := os.WriteFile(args[i], []byte(prices.String()), 0o666); err != nil {
						t.Fatal(err)
					}
				}
			}
			root := newRoot()
			root.SetArgs(args)
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			if err := root.ExecuteContext(t.Context()); err != nil {
				t.Errorf("%s: %v", strings.TrimSpace(line), err)
			}
		}
	}
}
