// Command evidence keeps docs/evidence.md, and tables of other pages, true to the results of runs and measurements.
//
//	evidence RUNS...        takes results of runs over, into docs/evidence/results.jsonl, and fills the pages' tables
//	evidence                fills the tables of the pages
//	evidence -check         says whether they are as it would fill them
//	evidence -made-up DIR   writes made-up data of the tasks that read files, to see that commands run
//
// RUNS is a folder with a folder for each command of the page, named as in its --out, such as runs/evidence.
// docs/evidence.sh runs those commands.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", "docs", "the folder of evidence.md")
	check := flag.Bool("check", false, "write nothing; fail where the page is not as its results say")
	madeUp := flag.String("made-up", "", "write made-up data to this folder, where it has none, and nothing else")
	flag.Parse()
	err := error(nil)
	if *madeUp != "" {
		err = writeMadeUp(*madeUp)
	} else {
		err = fill(*root, flag.Args(), *check)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "evidence:", err)
		os.Exit(1)
	}
}

// fill takes over the results under the folders of runs and fills the tables of the pages.
func fill(root string, runs []string, check bool) error {
	file := filepath.Join(root, "evidence", "results.jsonl")
	results, err := readResults(file)
	if err != nil {
		return err
	}
	for _, dir := range runs {
		found, left, err := collect(dir)
		if err != nil {
			return err
		}
		for _, line := range left {
			fmt.Fprintln(os.Stderr, "evidence: left out:", line)
		}
		results = merge(results, found)
	}
	pages, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		return err
	}
	if len(pages) == 0 {
		return fmt.Errorf("%s: found no pages, want the folder of evidence.md", root)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		filled, err := fillPage(string(text), results)
		if err == nil {
			filled, err = fillBenches(filled, root)
		}
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", page, err)
		case filled == string(text):
			continue
		case check:
			return fmt.Errorf("%s: its tables do not match %s and the measurements: run go run ./tools/evidence",
				page, file)
		}
		if err := os.WriteFile(page, []byte(filled), 0o644); err != nil {
			return err
		}
	}
	if check {
		return nil
	}
	return writeResults(file, results)
}
