package task

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// digitsFolders lists the folders of recordings, and digitsArchives the names of their archives, under the data folder.
var (
	digitsFolders  = []string{"recordings/", "free-spoken-digit-dataset/recordings/", "fsdd/recordings/"}
	digitsArchives = []string{"fsdd*.tar.gz", "free-spoken-digit-dataset*.tar.gz", "fsdd/*.tar.gz",
		"free-spoken-digit-dataset/*.tar.gz"}
)

// readRecordings reads all recordings under dir, sorted by digit, speaker and take. It reads a folder of WAV files if
// there is one, otherwise archives.
func readRecordings(ctx context.Context, from origin, dir string) ([]recording, error) {
	var all []recording
	add := func(name string, r io.Reader) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		take, err := parseRecording(name)
		if err != nil {
			return err
		}
		if take.samples, err = readWAV(r, digitsRate); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(take.samples) == 0 {
			return fmt.Errorf("%s: found no samples", name)
		}
		all = append(all, take)
		return nil
	}
	recordings, missing := from.find(dir, digitsFolders...)
	if missing == nil {
		if err := eachWAV(recordings, add); err != nil {
			return nil, from.damaged(recordings, "%w", err)
		}
	} else {
		var archives []string
		for _, pattern := range digitsArchives {
			found, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
			if err != nil {
				return nil, fmt.Errorf("task %s: %s: %w", from.task, folder(dir), err)
			}
			archives = append(archives, found...)
		}
		if len(archives) == 0 {
			return nil, from.missing(dir, slices.Concat(digitsFolders, digitsArchives)...)
		}
		for _, archive := range archives {
			err := from.read(archive, func(r io.Reader) error {
				return eachInTar(ctx, r, func(name string, r io.Reader) error {
					if !strings.HasSuffix(name, ".wav") {
						return nil
					}
					return add(path.Base(name), r)
				})
			})
			if err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(all, func(a, b recording) int {
		return cmp.Or(cmp.Compare(a.digit, b.digit), cmp.Compare(a.speaker, b.speaker), cmp.Compare(a.take, b.take))
	})
	for i := 1; i < len(all); i++ {
		if a, b := &all[i-1], &all[i]; a.digit == b.digit && a.speaker == b.speaker && a.take == b.take {
			return nil, fmt.Errorf("task %s: found %d_%s_%d.wav twice under %s", from.task, a.digit,
				a.speaker, a.take, folder(dir))
		}
	}
	return all, nil
}

// eachWAV calls add for each WAV file of a folder.
func eachWAV(folder string, add func(name string, r io.Reader) error) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".wav") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		if err := add(entry.Name(), bytes.NewReader(data)); err != nil {
			return err
		}
	}
	return nil
}

// parseRecording parses the name of a recording, such as 7_jackson_32.wav: digit, speaker, take.
func parseRecording(name string) (recording, error) {
	parts := strings.Split(strings.TrimSuffix(name, ".wav"), "_")
	if len(parts) == 3 && parts[1] != "" {
		digit, err1 := strconv.ParseUint(parts[0], 10, 8)
		take, err2 := strconv.ParseUint(parts[2], 10, 16)
		if err1 == nil && err2 == nil && digit <= 9 {
			return recording{digit: int32(digit), speaker: parts[1], take: int(take)}, nil
		}
	}
	return recording{}, fmt.Errorf("found the name %q, want one such as 7_jackson_32.wav: digit, speaker, take", name)
}
