package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
)

// TestConfigurations compares the configurations that are measured with those of the peers, at float32.
func TestConfigurations(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"gemm", `gemm m 1024 n 1024 k 1024 op NN;
			gemm m 1024 n 1024 k 1024 op NT;
			gemm m 1024 n 1024 k 1024 op TN;
			gemm m 4096 n 768 k 768 op NN;
			gemm m 4096 n 768 k 768 op NT;
			gemm m 4096 n 3072 k 768 op NN;
			gemm m 4096 n 3072 k 768 op NT;
			gemm m 768 n 768 k 4096 op TN;
			gemm m 1024 n 1024 k 256 op NN;
			gemm m 1024 n 1024 k 256 op NT;
			gemm m 1024 n 256 k 1024 op TN`},
		{"conv", `conv b 1 d 256 l 1024; conv b 8 d 64 l 1024; conv b 1 d 16 l 1024; conv b 1 d 256 l 4096;
			conv b 8 d 64 l 4096; conv b 1 d 16 l 4096; conv b 1 d 256 l 16384; conv b 8 d 64 l 16384;
			conv b 1 d 16 l 16384; conv b 1 d 256 l 65536; conv b 8 d 64 l 65536; conv b 1 d 16 l 65536`},
		{"kernel", "kernel d 768 modes 32 l 1024; kernel d 768 modes 32 l 8192"},
		{"mixer", `mixer mixer H3 d 256 l 256; mixer mixer attention d 256 l 256; mixer mixer H3 d 256 l 512;
			mixer mixer attention d 256 l 512; mixer mixer H3 d 256 l 1024; mixer mixer attention d 256 l 1024;
			mixer mixer H3 d 256 l 2048; mixer mixer attention d 256 l 2048; mixer mixer H3 d 256 l 4096;
			mixer mixer attention d 256 l 4096; mixer mixer H3 d 256 l 8192; mixer mixer attention d 256 l 8192;
			mixer mixer H3 d 256 l 16384; mixer mixer attention d 256 l 16384`},
		{"train a b c", `train config a model H3; train config a model H3-hybrid; train config a model GPT;
			train config b model H3; train config b model H3-hybrid; train config b model GPT;
			train config c model H3-hybrid`},
		{"synth", "synth task ind model h3; synth task ind model attn"},
		{"synth ar20", "synth task ar20 model h3; synth task ar20 model attn"},
		{"decode", `decode model H3-hybrid batch 1 context 1024; decode model H3-hybrid batch 1 context 8000;
			decode model H3-hybrid batch 32 context 1024; decode model H3-hybrid batch 1 context 131072;
			decode model GPT batch 1 context 1024;
			decode model GPT batch 1 context 8000; decode model linear-attention batch 1 context 1024;
			decode model Mamba-130M batch 1 context 1024`},
		{"prompt", `prompt model Mamba-130M batch 1 tokens 512; prompt model Mamba-130M batch 32 tokens 1;
			prompt model Mamba2-130M batch 1 tokens 512; prompt model Mamba2-130M batch 32 tokens 1;
			prompt model H3 batch 1 tokens 512; prompt model H3 batch 32 tokens 1;
			prompt model GPT batch 1 tokens 512; prompt model GPT batch 32 tokens 1;
			prompt model GPT batch 1 tokens 512 context 8192`},
		{"generation", `generation context 128; generation context 512; generation context 1024;
			generation context 2048; generation context 4096; generation context 8192; generation context 16384`},
		{"memory", "memory mode read"},
		{"machine", `machine mode memory; machine mode products m 1 n 3072 k 768;
			machine mode products m 4 n 3072 k 768; machine mode products m 32 n 3072 k 768;
			machine mode products m 512 n 3072 k 768; machine mode exp; machine mode sigmoid; machine mode gelu;
			machine mode convolution d 256 l 4096;
			machine mode convolution d 256 l 65536; machine mode attention d 768 l 2048;
			machine mode decode model H3-hybrid batch 1 context 1024`},
		{"load", "load model Mamba-130M file F32"},
		{"sparse", `sparse mixer window-attention d 256 l 1024; sparse mixer window-attention d 256 l 2048;
			sparse mixer window-attention d 256 l 4096; sparse mixer window-attention d 256 l 8192;
			sparse mixer window-attention d 256 l 16384; sparse mixer bigbird d 256 l 1024;
			sparse mixer bigbird d 256 l 2048; sparse mixer bigbird d 256 l 4096; sparse mixer bigbird d 256 l 8192;
			sparse mixer bigbird d 256 l 16384; sparse mixer bucket-attention d 256 l 1024;
			sparse mixer bucket-attention d 256 l 2048;
			sparse mixer bucket-attention d 256 l 4096; sparse mixer bucket-attention d 256 l 8192;
			sparse mixer bucket-attention d 256 l 16384;
			sparse mixer spatten d 256 l 1024; sparse mixer spatten d 256 l 2048; sparse mixer spatten d 256 l 4096;
			sparse mixer spatten d 256 l 8192; sparse mixer spatten d 256 l 16384;
			sparse mixer spatten-cascade d 256 l 1024; sparse mixer spatten-cascade d 256 l 2048;
			sparse mixer spatten-cascade d 256 l 4096; sparse mixer spatten-cascade d 256 l 8192;
			sparse mixer spatten-cascade d 256 l 16384`},
		{"scale", `scale mode train d 256 l 1024; scale mode train d 256 l 2048; scale mode train d 256 l 4096;
			scale mode train d 256 l 8192; scale mode train d 256 l 16384; scale mode train d 256 l 32768;
			scale mode train d 256 l 65536; scale mode train d 64 l 65536; scale mode train d 64 l 1048576;
			scale mode decode d 256 position 1024; scale mode decode d 256 position 4096;
			scale mode decode d 256 position 16384; scale mode decode d 256 position 65536;
			scale mode decode d 256 position 262144; scale mode decode d 256 position 1048576`},
	} {
		words := strings.Fields(c.name)
		cases, err := Cases(words[0], words[1:], "float32", 1)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range cases {
			id := slices.DeleteFunc(slices.Clone(x.ID), func(f Field) bool { return f.Name == "precision" })
			got = append(got, id.String())
		}
		if want := strings.Join(strings.Fields(c.want), " "); strings.Join(got, "; ") != want {
			t.Errorf("%s measures\n%s\nwant\n%s", c.name, strings.Join(got, "; "), want)
		}
	}
}

// storeFields are the fields of the store's rows.
const storeFields = "model precision place sessions p50_ms p99_ms fresh_p50_ms fresh_p99_ms alone_p50_ms lost mixed " +
	"memory_mb budget_mb rss_mb disk_mb loads writes"

// TestFields runs every benchmark at small sizes. It checks that the names of measurements are those of the peers'
// programs, and that the numbers are positive.
func TestFields(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	for name, want := range map[string]string{
		"gemm":   "m n k op precision gflops gflops_wall gflops_best",
		"conv":   "b d l precision fwd_ns fwd_bwd_ns",
		"kernel": "d modes l precision fwd_ms fwd_bwd_ms",
		"mixer":  "mixer d l precision fwd_us fwd_bwd_us",
		"train":  "config model precision params tokens_per_s tokens_per_s_wall matmul_gflops memory_mb",
		"synth":  "task model precision ms_per_step",
		"chars":  "loss precision valid_loss steps s_to_loss s_to_loss_wall",
		"decode": "model precision batch context tokens_per_s weight_gb_per_s dram_gb_per_s dram_share",
		"prompt": "model precision batch tokens tokens_per_s over_float32",
		"memory": "mode gb_per_s gb_per_s_wall",
		"load":   "model precision file load_s first_token_s packed_mb peak_mb rss_mb rss_start_mb",
		"sparse": "mixer d l precision fwd_us growth dense_fwd_us times_faster",
		"sessions": "model precision sessions context tokens_per_s over_one bound_over_one state_mb " +
			"bound_tokens_per_s bound_share products_tokens_per_s",
		"speculation": "model mode precision tokens_per_s over_plain accepted per_call",
		"generation":  "precision context h3_tokens_per_s gpt_tokens_per_s h3_over_gpt",
		"scale":       "mode d l precision tokens_per_s activation_mb",
		"long":        "mixer mode d l precision tokens_per_s activation_mb peak_mb",
		"store":       storeFields,
	} {
		var args []string
		if name == "train" {
			args = []string{"a"}
		}
		if name == "chars" {
			args = []string{someText(t), "3.3"}
		}
		cases, err := Cases(name, args, "", 32)
		if err != nil {
			t.Fatal(err)
		}
		keep := min(2, len(cases)) // the first of each mixer or model
		rows, theirs, err := Run(context.Background(), cases[:keep], Options{Threads: 2})
		if err != nil || len(rows) != keep || theirs != nil {
			t.Fatalf("%s: %d rows, peer's %v, error %v", name, len(rows), theirs, err)
		}
		for _, row := range rows {
			var got []string
			for _, f := range row {
				got = append(got, f.Name)
				// The growth of sequences as short as these is meaningless. A store in memory writes nothing.
				zero := slices.Contains([]string{"growth", "lost", "mixed", "disk_mb", "loads", "writes"}, f.Name)
				if x, ok := f.Value.(float64); ok && !(x > 0) && !zero {
					t.Errorf("%v: %s is not positive", row, f.Name)
				}
			}
			if want := "peer bench " + want + " threads cpu wall_over_cpu"; strings.Join(got, " ") != want {
				t.Errorf("%s has the fields\n%q, want\n%q", name, strings.Join(got, " "), want)
			}
			if n, _ := row.Number("threads"); n != 2 {
				t.Errorf("%v, want 2 threads", row)
			}
		}
	}
	if n := runtime.GOMAXPROCS(0); n != procs {
		t.Errorf("GOMAXPROCS is %d afterwards, was %d", n, procs)
	}
}

// TestAttentionGoesBackUpTo8192 checks that beyond 8192 positions backward is null, as the peer prints it.
func TestAttentionGoesBackUpTo8192(t *testing.T) {
	cases, err := Cases("mixer", nil, "float32", 64)
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := Run(context.Background(), cases[len(cases)-4:], Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i, measured := range []bool{true, true, true, false} {
		if _, ok := rows[i].Number("fwd_bwd_us"); ok != measured {
			t.Errorf("%v: backward measured: %v, want %v", rows[i], ok, measured)
		}
	}
}

// TestStoreLosesNothing checks that none of the benchmark's sessions is lost or mixed up, that memory is within its
// budget, and that sessions through the disk are written to it and read from there.
func TestStoreLosesNothing(t *testing.T) {
	cases, err := Cases("store", []string{t.TempDir(), "200"}, "", 32)
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := Run(context.Background(), cases, Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range rows {
		lost, _ := row.Number("lost")
		mixed, _ := row.Number("mixed")
		memory, _ := row.Number("memory_mb")
		budget, _ := row.Number("budget_mb")
		loads, _ := row.Number("loads")
		if lost+mixed > 0 || memory > budget || (loads > 100) != (i == 1) {
			t.Errorf("%v", row)
		}
	}
}

func TestBadArguments(t *testing.T) {
	for line, want := range map[string]string{
		"tran": `found the benchmark "tran", want one of gemm, conv, kernel, mixer, sparse, train, synth, chars, ` +
			`decode, prompt, generation, sessions, speculation, scale, long, memory, machine, load, files, resume, ` +
			`store, serve, cluster`,
		"train": "train: found no configuration, want some of a, b, c",
		"train d": `train: found the configuration "d", want one of a, b, c, each also with -lora, -lora-bf16, ` +
			`-lora-int8 or -lora-int4`,
		"train a-lora-int3": `train: found the configuration "a-lora-int3", want one of a, b, c, each also with ` +
			`-lora, -lora-bf16, -lora-int8 or -lora-int4`,
		"synth x":   `synth: found the task "x", want one of ar10, ar20, ind`,
		"gemm 5":    `gemm: found the argument "5", want none`,
		"store a 0": `store: found "0" sessions, want a number of at least 1`,
		"mixer h":   `mixer: found the mixer "h", want all or some of ` + strings.Join(model.MixerNames(), ", "),
		"resume": "resume: found the arguments [], want cold or restored, a folder, a number of tokens and " +
			"models",
		"resume cold d x m": `resume: found "x" tokens, want a number of at least 1`,
		"resume cold d 5":   "resume: found no model, want files or folders",
	} {
		words := strings.Fields(line)
		if _, err := Cases(words[0], words[1:], "", 1); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", line, err, want)
		}
	}
}

// TestNamedMixers checks that every mixer can be measured, forward, with backward and step by step, and some also
// without their linear layers.
func TestNamedMixers(t *testing.T) {
	cases, err := Cases("mixer", []string{"all"}, "", 32)
	if err != nil {
		t.Fatal(err)
	}
	if want := 2 * len(model.MixerNames()); len(cases) != want {
		t.Fatalf("%d cases, want %d", len(cases), want)
	}
	rows, _, err := Run(context.Background(), cases, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		fields := []string{"fwd_us", "fwd_bwd_us", "step_us"}
		name, _ := row.Get("mixer")
		if _, ok := operations[name.(string)]; ok {
			fields = append(fields, "op_fwd_us", "op_fwd_bwd_us")
		}
		for _, field := range fields {
			if v, ok := row.Number(field); !ok || v <= 0 {
				t.Errorf("%v: no %s", row, field)
			}
		}
	}
}

// TestPrecision checks that updates and mixers are measured at every precision, or at the requested one, and that an
// unknown one is an error.
func TestPrecision(t *testing.T) {
	for precision, want := range map[string]int{"": 6, "float32": 3, "bf16": 3} {
		cases, err := Cases("train", []string{"a"}, precision, 32)
		if err != nil || len(cases) != want {
			t.Errorf("train a at %q: %d cases, error %v, want %d", precision, len(cases), err, want)
		}
	}
	want := `train: found the precision "fp8", want one of float32, bf16`
	if _, err := Cases("train", []string{"a"}, "fp8", 1); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestOnly checks that cases are chosen by their fields, by several values of a field, and by the lack of one.
func TestOnly(t *testing.T) {
	cases, err := Cases("prompt", nil, "int8", 32)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ only, want string }{
		{"model=GPT,H3 batch=1", "H3 GPT GPT"}, {"model=GPT,batch=1,context=-", "GPT"}, {"context=256", "GPT"},
		{"batch=32,1 model=H3", "H3 H3"},
		{"model=GPT-2", "only: found no case with model=GPT-2 among 9, such as prompt model Mamba-130M " +
			"precision int8 batch 1 tokens 512"},
		{"GPT", `only: found "GPT", want FIELD=VALUE, such as model=GPT`},
	} {
		some, err := Only(cases, strings.FieldsFunc(c.only, func(r rune) bool { return r == ' ' || r == ',' }))
		got := fmt.Sprint(err)
		if err == nil {
			var models []string
			for _, x := range some {
				model, _ := x.ID.Get("model")
				models = append(models, Text(model))
			}
			got = strings.Join(models, " ")
		}
		if got != c.want {
			t.Errorf("only %s: %s, want %s", c.only, got, c.want)
		}
	}
	if all, err := Only(cases, nil); err != nil || len(all) != len(cases) {
		t.Errorf("%d of %d cases, error %v, want all", len(all), len(cases), err)
	}
}

// someText returns the path of a file with the same line many times.
func someText(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "text.txt")
	text := strings.Repeat("To be, or not to be, that is the question.\n", 100)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestChars checks that it is an error if a training does not reach the loss, or if the requested loss is invalid.
func TestChars(t *testing.T) {
	text := someText(t)
	cases, err := Cases("chars", []string{text, "1e-9"}, "float32", 32)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = Run(t.Context(), cases, Options{Threads: 1})
	if err == nil || !strings.Contains(err.Error(), "after 600 updates, want less than 1e-09") {
		t.Errorf("error %v, want that the loss was not reached", err)
	}
	for _, args := range [][]string{nil, {text, "x"}, {text, "-1"}, {text, "1", "2"}} {
		if _, err := Cases("chars", args, "", 32); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

// TestMeasure checks that functions take turns, each as often as requested, and that an error or a cancelled context
// ends the measurement.
func TestMeasure(t *testing.T) {
	var turns strings.Builder
	busy := func(name string) func() error {
		return func() error {
			turns.WriteString(name)
			for start := status.CPUTime(); status.CPUTime()-start < 2*shortest; {
			}
			return nil
		}
	}
	of := func(runs ...func() error) trial { return trial{runs: runs} }
	both, err := measure(context.Background(), of(busy("a"), busy("b")), []int{1}, 0)
	if err != nil || turns.String() != "ab"+"ababab" {
		t.Errorf("turns %q, error %v; want one each to warm up and three to measure", turns.String(), err)
	}
	times := both[0]
	for _, x := range times {
		if x.CPU < 2*shortest.Seconds() || x.Wall < x.CPU/2 || x.Best > x.Wall {
			t.Errorf("%+v for a call of %v", x, 2*shortest)
		}
	}
	turns.Reset()
	half, err := measure(context.Background(), of(busy("a")), []int{2, 1}, 0)
	if err != nil || half[0][0].CPU > half[1][0].CPU*0.9 || turns.String() != "aaaaaaa" {
		t.Errorf("on two threads and one %+v, want half of the latter; turns %q", half, turns.String())
	}
	turns.Reset()
	once, err := measure(context.Background(), trial{runs: of(busy("a"), busy("b")).runs, long: true}, []int{1}, 1)
	if err != nil || turns.String() != "ab" || once[0][1].CPU < 2*shortest.Seconds() {
		t.Errorf("%+v after the turns %q, want one of each of what is long", once, turns.String())
	}
	turns.Reset()
	many, err := measure(context.Background(), trial{runs: of(busy("a"), busy("b")).runs, repeats: 5}, []int{1}, 0)
	if err != nil || turns.String() != "ab"+"ababababab" {
		t.Errorf("turns %q, error %v; want one each to warm up and five to measure", turns.String(), err)
	}
	if x := many[0][0].times(many[0][1]); !(x > 0) || len(many[0][0].walls) != 5 {
		t.Errorf("%v times as long, of %v, want a ratio of five repetitions", x, many[0][0].walls)
	}
	a, b := Timing{walls: []float64{2, 30, 3}}, Timing{walls: []float64{1, 10, 2}}
	if x := a.times(b); x != 2 {
		t.Errorf("%v times as long, want the middle of 2, 3 and 1.5", x)
	}
	broken := errors.New("broken")
	if _, err := measure(context.Background(), of(func() error { return broken }), []int{1}, 0); err != broken {
		t.Errorf("error %v, want %v", err, broken)
	}
	ctx, cancel := context.WithCancel(context.Background())
	_, err = measure(ctx, of(func() error { cancel(); return nil }), []int{1}, 0)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that the context is cancelled", err)
	}
}

// TestMachine checks that the rows of a machine have their measurements, and that they are read back from a file. A
// measurement that is cancelled leaves the rows measured before.
func TestMachine(t *testing.T) {
	cases, err := Cases("machine", nil, "", 32)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"memory": "gb_per_s all_cores_gb_per_s_wall",
		"products": "precision m n k gop_per_s weight_gb_per_s", "exp": "ns", "sigmoid": "ns", "gelu": "ns",
		"convolution": "d l fwd_ns fwd_bwd_ns", "attention": "d l us gflops",
		"decode": "model precision batch context tokens_per_s weight_gb_per_s dram_gb_per_s dram_share"}
	ctx, end := context.WithCancel(t.Context())
	done, but := 0, 3
	rows, _, err := Run(ctx, cases, Options{Threads: 1, Measured: func(Row) {
		if done++; done == len(cases)-but {
			end()
		}
	}})
	if !errors.Is(err, context.Canceled) || len(rows) != len(cases)-but {
		t.Fatalf("%d rows of %d cases, error %v, want all but %d, ended", len(rows), len(cases), err, but)
	}
	for _, row := range rows {
		mode, _ := row.Get("mode")
		var got []string
		for _, f := range row {
			got = append(got, f.Name)
			if x, ok := f.Value.(float64); ok && !(x > 0) {
				t.Errorf("%v: %s is not positive", row, f.Name)
			}
		}
		all := "peer bench mode " + want[mode.(string)] + " threads cpu wall_over_cpu"
		if strings.Join(got, " ") != all {
			t.Errorf("%s has the fields\n%q, want\n%q", mode, strings.Join(got, " "), all)
		}
	}
	m, err := ThisMachine(rows)
	if err != nil || !slices.Contains(m.Levels, m.Level) || len(m.Kernels) == 0 || m.Go != runtime.Version() {
		t.Errorf("the machine is %+v, error %v", m, err)
	}
	path := filepath.Join(t.TempDir(), "machine.json")
	if err := disk.WriteJSON(path, m); err != nil {
		t.Fatal(err)
	}
	if again, err := ReadRows(path, "machine"); err != nil || !reflect.DeepEqual(again, rows) {
		t.Errorf("the file gives back %v, error %v, want %v", again, err, rows)
	}
}
