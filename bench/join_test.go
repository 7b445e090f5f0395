package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func parse(t *testing.T, lines ...string) []Row {
	t.Helper()
	var rows []Row
	for _, line := range lines {
		row, err := ParseRow([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

func jsonOf(t *testing.T, v json.Marshaler) string {
	t.Helper()
	text, err := v.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDirection(t *testing.T) {
	for want, fields := range map[int]string{
		1:  "tokens_per_s tokens_per_s_wall gflops gflops_wall gflops_best matmul_gflops weight_gb_per_s",
		-1: "fwd_ns fwd_bwd_ns fwd_us fwd_bwd_us fwd_ms fwd_bwd_ms ms_per_step s_to_loss s_to_loss_wall used_mb",
		0:  "params cpu_s threads epoch accuracy d l modes wall_over_cpu activation_mb rss_mb rss_start_mb seed",
	} {
		for _, f := range strings.Fields(fields) {
			if d := direction(f); d != want {
				t.Errorf("direction of %s is %d, want %d", f, d, want)
			}
		}
	}
}

// TestJoin checks that rows are joined by every key that both have, and that a ratio above 1 means that hippo is
// faster.
func TestJoin(t *testing.T) {
	ours := parse(t,
		`{"peer":"hippo","bench":"train","config":"a","model":"H3","precision":"float32","params":100,
			"tokens_per_s":300,"tokens_per_s_wall":200,"threads":1}`,
		`{"peer":"hippo","bench":"train","config":"a","model":"GPT","precision":"float32","params":100,
			"tokens_per_s":50,"threads":1}`,
		`{"peer":"hippo","bench":"conv","b":1,"d":16,"l":1024,"precision":"float32",
			"fwd_ns":2,"fwd_bwd_ns":null,"threads":1}`,
	)
	theirs := parse(t,
		`{"peer":"pytorch","bench":"train","config":"a","model":"H3","how":"official","params":90,
			"tokens_per_s":100,"tokens_per_s_wall":100}`,
		`{"peer":"pytorch","bench":"train","config":"a","model":"H3","how":"tuned","params":90,"tokens_per_s":200}`,
		`{"peer":"pytorch","bench":"train","config":"b","model":"H3","how":"tuned","tokens_per_s":200}`,
		`{"peer":"fftw","bench":"conv","d":16,"l":1024,"fwd_ns":5,"fwd_bwd_ns":9}`,
		`{"peer":"fftw","bench":"conv","d":16,"l":1024,"threads":2,"fwd_ns":5}`,
		`{"peer":"other","config":"a","tokens_per_s":200}`,
	)
	pairs, err := Join(ours, theirs)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"bench":"train","config":"a","model":"H3","precision":"float32","threads":1,` +
			`"peer":"hippo/pytorch","how":"official",` +
			`"hippo_tokens_per_s":300,"peer_tokens_per_s":100,"ratio_tokens_per_s":3,` +
			`"hippo_tokens_per_s_wall":200,"peer_tokens_per_s_wall":100,"ratio_tokens_per_s_wall":2}`,
		`{"bench":"train","config":"a","model":"H3","precision":"float32","threads":1,` +
			`"peer":"hippo/pytorch","how":"tuned",` +
			`"hippo_tokens_per_s":300,"peer_tokens_per_s":200,"ratio_tokens_per_s":1.5}`,
		`{"bench":"conv","b":1,"d":16,"l":1024,"precision":"float32","threads":1,` +
			`"peer":"hippo/fftw","hippo_fwd_ns":2,"peer_fwd_ns":5,"ratio_fwd_ns":2.5}`,
	}
	for i, p := range pairs {
		if got := jsonOf(t, p.Row()); i >= len(want) || got != want[i] {
			t.Errorf("pair %d: %s", i, got)
		}
	}
	if len(pairs) != len(want) {
		t.Errorf("%d pairs, want %d", len(pairs), len(want))
	}
	none := "peer: found 1 rows, of which none measures what one of hippo's 3 does"
	if _, err := Join(ours, theirs[2:3]); err == nil || !strings.HasPrefix(err.Error(), none) {
		t.Errorf("rows that do not fit: error %v", err)
	}
}

func TestMedians(t *testing.T) {
	rows := parse(t,
		`{"bench":"conv","l":8,"params":3,"fwd_ns":5,"fwd_bwd_ns":null,"over_float32":2,"dram_share":1}`,
		`{"bench":"conv","l":16,"fwd_ns":1}`,
		`{"bench":"conv","l":8,"params":4,"fwd_ns":9,"fwd_bwd_ns":null,"over_float32":1,"dram_share":2}`,
		`{"bench":"conv","l":16,"fwd_ns":1}`,
		`{"bench":"conv","l":8,"params":5,"fwd_ns":2,"fwd_bwd_ns":7,"over_float32":3,"dram_share":3}`,
		`{"bench":"conv","l":16,"how":"fast","fwd_ns":0.5}`,
	)
	want := parse(t,
		`{"bench":"conv","l":8,"params":5,"fwd_ns":5,"fwd_bwd_ns":7,"over_float32":2,"dram_share":2}`,
		`{"bench":"conv","l":16,"fwd_ns":1}`,
		`{"bench":"conv","l":16,"how":"fast","fwd_ns":0.5}`,
	)
	if got := medians(rows); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if rows[4][3].Value != 2.0 {
		t.Error("the rows themselves were changed")
	}
}

func TestParseRow(t *testing.T) {
	line := `{"peer":"x","bench":"train","l":1024,"fwd_ns":0.125,"none":null,"hit":{"epoch":[1]},"<":"é\"\n"}`
	row := parse(t, line)[0]
	again := parse(t, jsonOf(t, row))[0]
	if !reflect.DeepEqual(row, again) || row[2] != (Field{"l", 1024.0}) || row[6] != (Field{"<", "é\"\n"}) {
		t.Errorf("%v became %v", row, again)
	}
	if got := jsonOf(t, parse(t, "{}")[0]); got != "{}" {
		t.Errorf("an empty row became %s", got)
	}
	for _, bad := range []string{"", "core Zen", "[1]", `{"a":1`, `{"a"}`, `{"a":}`, `{"a":1} 5`, `{"a":NaN}`, `5`} {
		if row, err := ParseRow([]byte(bad)); err == nil || !strings.HasSuffix(err.Error(), "want a JSON object") {
			t.Errorf("%q was read as %v, error %v", bad, row, err)
		}
	}
}

// FuzzParseRow checks that every row that is parsed can be written, joined and parsed again.
func FuzzParseRow(f *testing.F) {
	f.Add([]byte(`{"bench":"conv","l":1024,"fwd_ns":0.5,"how":null,"x":[{}]}`))
	f.Add([]byte(`{"bench":["a"],"bench":{},"gflops":1e300}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		row, err := ParseRow(line)
		if err != nil {
			return
		}
		text, err := row.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseRow(text); err != nil || !reflect.DeepEqual(row, again) {
			t.Errorf("%s became %v, error %v", text, again, err)
		}
		medians([]Row{row, row})
		if pairs, err := Join([]Row{row}, []Row{row}); err == nil {
			for _, r := range pairs[0].Ratios {
				if r.Ratio != 1 {
					t.Errorf("%s beside itself: %+v", text, r)
				}
			}
		}
	})
}

// TestPeer runs a command that prints rows, in every round.
func TestPeer(t *testing.T) {
	dir := t.TempDir()
	rows := filepath.Join(dir, "rows.jsonl")
	text := `{"peer":"fake","bench":"synth","task":"ind","model":"h3","epoch":1,"ms_per_step":7}` + "\n\n" +
		`{"peer":"fake","bench":"synth","task":"ind","model":"h3","epoch":2,"ms_per_step":1e6}` + "\n"
	if err := os.WriteFile(rows, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	show := "cat "
	if runtime.GOOS == "windows" {
		show = "type "
	}
	cases, err := Cases("synth", nil, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	opt := Options{Threads: 1, Rounds: 3, Peer: show + rows, PeerErr: &stderr}
	measured := 0
	opt.Measured = func(Row) { measured++ }
	ours, theirs, err := Run(context.Background(), cases, opt)
	if err != nil {
		t.Fatal(err)
	}
	if len(ours) != 2 || measured != 6 || len(theirs) != 1 {
		t.Fatalf("%d rows of hippo in %d measurements, %d of the peer; want 2 in 6, 1", len(ours), measured,
			len(theirs))
	}
	pairs, err := Join(ours, theirs)
	if err != nil || len(pairs) != 1 || pairs[0].Ratios[0].Theirs != 1e6 || pairs[0].Ratios[0].Ratio < 2 {
		t.Errorf("%+v, error %v: want hippo's h3 beside the peer's last row, and faster", pairs, err)
	}

	for command, want := range map[string]string{
		"echo core Zen": "peer: echo core Zen: line 1: found \"core Zen\", want a JSON object",
		"exit 3":        "peer: exit 3: exit status 3",
	} {
		opt.Peer, opt.Rounds = command, 1
		_, _, err := Run(context.Background(), cases[:1], opt)
		if err == nil || strings.ReplaceAll(err.Error(), `\r`, "") != want {
			t.Errorf("%s: error %v, want %s", command, err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	opt.Measured = func(Row) { cancel() }
	if _, _, err := Run(ctx, cases[:1], opt); err != context.Canceled {
		t.Errorf("cancelled before the peer: error %v", err)
	}
}
