package bench

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestServe: each measurement of the server gives its fields, of numbers that can be, and closed streams leave little.
func TestServe(t *testing.T) {
	fields := map[string]string{
		"clients": "context tokens_per_s scheduler_tokens_per_s overhead_share overhead_cpu_share " +
			"server_cpu_share cpu_us scheduler_cpu_us client_cpu_us",
		"pauses":  "prompt p50_ms p99_ms p99_over_p50 prompts",
		"turn":    "first_ms turn_ms slowest_turn_ms response_ms turn_read response_read",
		"choices": "context ending questions_per_s rereading_questions_per_s times_faster times_less_cpu",
		"agents":  "requests tokens mismatches cached_share new_share read_again times_less_cpu",
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

// TestServeChosen: measures and presets can be chosen, and what is neither is named.
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
	_, err = Cases("serve", []string{"turns"}, "", 32)
	if err == nil || !strings.Contains(err.Error(), `found "turns"`) {
		t.Errorf("found the error %v", err)
	}
}

// TestAgentAnswers: a bit of a log-probability, another text and another end are seen; another id of a call is not.
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
