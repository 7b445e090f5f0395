package bench

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestServe checks that each measurement of the server has its fields with plausible numbers, and that closed streams
// leave little memory in use.
func TestServe(t *testing.T) {
	fields := map[string]string{
		"clients": "context tokens_per_s scheduler_tokens_per_s overhead_share overhead_cpu_share " +
			"server_cpu_share cpu_us scheduler_cpu_us client_cpu_us",
		"pauses":  "prompt p50_ms p99_ms p99_over_p50 prompts",
		"turn":    "first_ms turn_ms slowest_turn_ms response_ms short_ms turn_read response_read",
		"choices": "context ending questions_per_s rereading_questions_per_s times_faster times_less_cpu",
		"agents":  "requests tokens mismatches cached_share new_share read_again times_less_cpu",
		"library": "tokens read_ms mount_ms mount_read again_ms mismatches state_mb text_mb",
		"move":    "read_ms state_mb state_ms get_ms put_ms open_ms move_ms move_cpu_ms mismatches",
		"chunk":   "chunk tokens_per_s cost_64 cost_128 cost_256",
		"streams": "kb_each left_mb",
	}
	cases, err := Cases("serve", nil, "", 32)
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := Run(t.Context(), cases, Options{Threads: 2})
	if err != nil || len(rows) != len(cases) {
		t.Fatalf("%d rows of %d cases, error %v", len(rows), len(cases), err)
	}
	for _, row := range rows {
		what, _ := row.Get("measure")
		var got []string
		for _, f := range row {
			got = append(got, f.Name)
			signed := strings.HasSuffix(f.Name, "_share") || f.Name == "left_mb" || f.Name == "mismatches" ||
				f.Name == "read_again"
			if x, ok := f.Value.(float64); ok && !(x > 0) && !signed {
				t.Errorf("%v: %s is not positive", row, f.Name)
			}
		}
		want := "peer bench measure model precision n " + fields[what.(string)] + " threads cpu wall_over_cpu"
		if strings.Join(got, " ") != want {
			t.Errorf("found the fields\n%q, want\n%q", strings.Join(got, " "), want)
		}
		if x, ok := row.Number("mismatches"); ok && x != 0 {
			t.Errorf("%v: replies depend on what is cached", row)
		}
		if left, ok := row.Number("left_mb"); ok && left > 20 {
			t.Errorf("%v: streams leave %v MB", row, left)
		}
	}
}

// TestServeChosen checks that measures and presets can be chosen, and that the error names an argument that is neither.
func TestServeChosen(t *testing.T) {
	cases, err := Cases("serve", []string{"mamba2-130m", "turn", "mamba-130m"}, "", 32)
	if err != nil || len(cases) != 2 {
		t.Fatalf("%d cases, error %v, want 2", len(cases), err)
	}
	for i, want := range []string{"mamba2-130m", "mamba-130m"} {
		what, _ := cases[i].ID.Get("measure")
		if of, _ := cases[i].ID.Get("model"); what != "turn" || of != want {
			t.Errorf("case %d measures %v of %v, want turn of %s", i, what, of, want)
		}
	}
	for _, wrong := range []string{"turns", "part=0/2", "part=3/2", "part=1/99", "part=1", "limit=0", "limit=soon",
		"agents=0", "agents=x", "agents=1000000"} {
		if _, err = Cases("serve", []string{wrong}, "", 8); err == nil ||
			!strings.Contains(err.Error(), fmt.Sprintf("found %q", wrong)) {
			t.Errorf("%s: found the error %v", wrong, err)
		}
	}
}

// TestAgentsInPieces checks that the parts contain each agent once, and that a limit ends a part early.
func TestAgentsInPieces(t *testing.T) {
	seen := map[int]int{}
	for part := range 3 {
		of := transcripts{agents: 8}
		if err := of.setting(fmt.Sprintf("part=%d/3", part+1)); err != nil {
			t.Fatal(err)
		}
		for _, i := range of.numbers() {
			seen[i]++
		}
	}
	of := transcripts{agents: 2, part: 1, parts: 1}
	if err := of.setting("agents=5"); err != nil || len(of.numbers()) != 5 {
		t.Errorf("of 5 agents there are %v, %v", of.numbers(), err)
	}
	for i := range 8 {
		if seen[i] != 1 || len(seen) != 8 {
			t.Errorf("found the agents %v, want each of 8 once", seen)
		}
	}
	cases, err := Cases("serve", []string{"agents", "mamba-130m", "part=2/2", "limit=200ms"}, "", 32)
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := Run(t.Context(), cases, Options{Threads: 2})
	if err != nil || len(rows) != 1 {
		t.Fatalf("found %v, %v", rows, err)
	}
	part, _ := rows[0].Get("part")
	requests, _ := rows[0].Number("requests")
	if mismatches, ok := rows[0].Number("mismatches"); part != "2/2" || !ok || mismatches != 0 || requests < 1 ||
		requests >= 8 {
		t.Errorf("found %v, want fewer than 8 requests of one agent", rows[0])
	}
}

// TestAgentAnswers checks that a changed bit of a log-probability, another text and another end are detected, and that
// another id of a call is not.
func TestAgentAnswers(t *testing.T) {
	const whole = `{"choices":[{"message":{"role":"assistant","content":"a",` +
		`"tool_calls":[{"id":"1","type":"function"}]},` +
		`"logprobs":{"content":[{"logprob":-0.5}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":3}}`
	answer := func(from, to string) (a agentAnswer) {
		if err := json.Unmarshal([]byte(strings.Replace(whole, from, to, 1)), &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	want := answer("", "")
	for text, to := range map[string]string{
		`"id":"1"`: `"id":"2"`, `"a"`: `"b"`, "-0.5": "-0.5000001", "stop": "length", ":3": ":4",
	} {
		same := text == `"id":"1"`
		if got := answer(text, to); got.same(want) != same {
			t.Errorf("%s in place of %s: the same is %v", to, text, !same)
		}
	}
}
