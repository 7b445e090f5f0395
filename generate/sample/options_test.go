package sample

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestValidateNamesAllProblems(t *testing.T) {
	nan := math.NaN()
	for _, good := range []Options{{}, {Temperature: 1, TopK: 40, TopP: 0.9, MinP: 0.05, RepetitionPenalty: 1.1,
		RepetitionWindow: 64}, {TopP: 1, MinP: 1}} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	_, err := New(Options{Temperature: math.Inf(1), TopK: -1, TopP: 1.5, MinP: nan,
		RepetitionPenalty: -0.5, RepetitionWindow: -2})
	want :=
		"sampling options: temperature: found +Inf, want a number from 0 up; top_k: found -1, " +
			"want an integer from 0 up; top_p: found 1.5, want a number from 0 to 1; min_p: found NaN, " +
			"want a number from 0 to 1; repetition_penalty: found -0.5, want a number from 0 up; repetition_window: " +
			"found -2, want an integer from 0 up"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	for _, bad := range []Options{{Temperature: nan}, {TopP: nan}, {RepetitionPenalty: nan}, {Temperature: -1},
		{MinP: -0.1}, {RepetitionPenalty: math.Inf(1)}} {
		if err := bad.Validate(); err == nil || strings.Contains(err.Error(), ";") {
			t.Errorf("%+v: found %v, want one problem", bad, err)
		}
	}
}

func TestOptionsInJSON(t *testing.T) {
	got, err := json.Marshal(Options{Temperature: 0.8, TopK: 40, Seed: math.MaxUint64})
	want :=
		`{"temperature":0.8,"top_k":40,"top_p":0,"min_p":0,"repetition_penalty":0,"repetition_window":0,` +
			`"frequency_penalty":0,"presence_penalty":0,"seed":18446744073709551615}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}
