package batch

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// fullVault is a vault on a disk that is sometimes full.
type fullVault struct {
	vault
	full *atomic.Bool
}

func (f fullVault) space() error {
	if f.full.Load() {
		return fmt.Errorf("the vault of the test: %w", syscall.ENOSPC)
	}
	return nil
}

func (f fullVault) write(name string, fill func(io.Writer) error) error {
	if err := f.space(); err != nil {
		return err
	}
	return f.vault.write(name, fill)
}

func (f fullVault) extend(name string, at int64) (journal, error) {
	if err := f.space(); err != nil {
		return nil, err
	}
	j, err := f.vault.extend(name, at)
	return fullJournal{j, f}, err
}

// fullJournal has space for only the first half of the last write.
type fullJournal struct {
	journal
	of fullVault
}

func (j fullJournal) Write(p []byte) (int, error) {
	if err := j.of.space(); err != nil {
		n, _ := j.journal.Write(p[:len(p)/2])
		return n, err
	}
	return j.journal.Write(p)
}

// TestFullDisk checks that a batch whose disk is full waits, and continues when there is space. No finished request is
// repeated, none is lost, and nothing is charged twice.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		var asked atomic.Int32
		s := open(t, Options{Together: 1, Do: func(ctx context.Context, q Request) (Response, error) {
			if n := asked.Add(1); n == 5 || n == 9 {
				full.Store(true)
			}
			return echo(ctx, q)
		}})
		s.vault = fullVault{s.vault, &full}
		b := begin(t, s, "", requests(10))
		for range 5 { // also while the output is written
			time.Sleep(time.Hour)
			synctest.Wait()
			now, err := s.Batch("", b.ID, false)
			if err != nil || full.Load() && now.Status.ended() {
				t.Fatalf("on a full disk the batch is %+v (%v)", now, err)
			}
			full.Store(false)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		b, err := s.Batch("", b.ID, false)
		if err != nil {
			t.Fatal(err)
		}
		check(t, s, b, 10)
		out := read(t, s, "", b.Output)
		if b.Status != Completed || strings.Count(out, "\n") < 6 || asked.Load() != 10 {
			t.Errorf("%d requests were made, %+v, output %s", asked.Load(), b, out)
		}
		var all int64
		files, _, err := s.Files("", "", Page{Limit: 9})
		for _, f := range files {
			all += f.Bytes
		}
		if err != nil || s.Used() != all {
			t.Errorf("%d bytes are counted, want %d (%v)", s.Used(), all, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
