package cloud

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/serve/fleet"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/session/store"
	"github.com/hippo-ssm/hippo/tokenizer"
	"github.com/hippo-ssm/hippo/train"
)

// movesFile names the file for the measurements of docs/fleet.md, which take a minute:
//
//	HIPPO_MOVES=$PWD/docs/fleet.jsonl go test -C session/bucket -count=1 -run Moves ./cloud
const movesFile = "HIPPO_MOVES"

// TestMoves measures the cost of storing a session and taking it over at another server, through a folder and through
// S3 on this machine, also with a delay of 20 ms per request. Without a file it only checks that sessions arrive.
func TestMoves(t *testing.T) {
	models, times, tokens := [][3]string{{"tiny", "tiny", ""}}, 1, 70
	out := &bytes.Buffer{}
	path := os.Getenv(movesFile)
	if path != "" {
		times, tokens = 3, 256
		models = [][3]string{
			{"H3-125M, all layers H3", "h3-125m", "h3*12"}, {"H3-125M, a hybrid: one layer of attention", "h3-125m", ""},
			{"Mamba-130M", "mamba-130m", ""}, {"Mamba-2-130M", "mamba2-130m", ""},
		}
	}
	buckets := []struct{ name, url string }{
		{"folder", "file://" + t.TempDir() + "/fleet"}, {"s3", slowS3(t, 0, 0, 0)},
	}
	if path != "" {
		const far = 20 * time.Millisecond
		buckets = append(buckets, struct{ name, url string }{"far", slowS3(t, far, 0, 0)})
	}
	enc := json.NewEncoder(out)
	for _, of := range models {
		c, err := model.Preset(of[1])
		if err != nil {
			t.Fatal(err)
		}
		if of[2] != "" {
			c.Layers = of[2]
		}
		c.VocabSize = max(c.VocabSize, 256)
		net, err := model.New(c)
		if err != nil {
			t.Fatal(err)
		}
		net.Init(1)
		x := session.New(net, tokenizer.Bytes(), session.Options{Budget: 1})
		ids := make([]int32, tokens)
		for i := range ids {
			ids[i] = int32(i * i % 251)
		}
		if err := x.Append(t.Context(), ids); err != nil {
			t.Fatal(err)
		}
		row := map[string]any{"model": of[0], "tokens": tokens}
		for _, on := range buckets {
			b, err := store.Connect(t.Context(), on.url)
			if err != nil {
				t.Fatal(err)
			}
			save, load, size := move(t, b, net, x, times)
			row["mb"], row[on.name+"_store"], row[on.name+"_take"] = float64(size)/1e6, save, load
		}
		if err := enc.Encode(row); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("\n%s", out)
	if path == "" {
		return
	}
	here := train.Here()
	commit, err := exec.CommandContext(t.Context(), "git", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	err = enc.Encode(map[string]any{"bench": "origin", "commit": strings.TrimSpace(string(commit)), "date": here.Date,
		"machine": here.Machine})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}

// move stores a session and takes it over a few times, as servers do, and returns the median times in milliseconds.
func move(t *testing.T, b store.Shared, net *model.Model, x *session.Session, times int) (save, load float64, size int) {
	t.Helper()
	one, err := fleet.Open(b, fleet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := fleet.Open(b, fleet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("sessions/all/sess_%d.json", time.Now().UnixNano())
	if err := one.Put(name, []byte("0")); err != nil {
		t.Fatal(err)
	}
	var saves, loads []float64
	since := func(at time.Time) float64 { return float64(time.Since(at).Microseconds()) / 1000 }
	for i := range times {
		l, err := one.Lock(name)
		if err != nil {
			t.Fatal(err)
		}
		states := fmt.Sprintf("%s-%d", name[:len(name)-5], i)
		at := time.Now()
		var data bytes.Buffer
		if err := x.Encode(&data, session.FileOptions{Marks: 8 << 20}); err != nil {
			t.Fatal(err)
		}
		if err := one.Write(states, data.Bytes()); err != nil {
			t.Fatal(err)
		}
		if err := one.Put(name, []byte(states)); err != nil {
			t.Fatal(err)
		}
		saves = append(saves, since(at))
		l.Release()
		at = time.Now()
		if l, err = other.Lock(name); err != nil {
			t.Fatal(err)
		}
		found, err := other.Get(name)
		if err != nil || string(found) != states {
			t.Fatalf("found %q, %v", found, err)
		}
		moved, err := other.Read(states)
		if err != nil {
			t.Fatal(err)
		}
		y, err := session.Decode(moved, net, tokenizer.Bytes(), session.Options{}, nil)
		if err != nil || !slices.Equal(y.IDs(), x.IDs()) {
			t.Fatalf("the session did not arrive: %v", err)
		}
		loads = append(loads, since(at))
		l.Release()
		size = data.Len()
	}
	one.Close()
	other.Close()
	slices.Sort(saves)
	slices.Sort(loads)
	return saves[times/2], loads[times/2], size
}
