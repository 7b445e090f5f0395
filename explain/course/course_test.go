package course

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each exercise takes its own answer, refuses others, and knows its slips apart from the answer and from each other.
func TestExercisesTakeTheirAnswers(t *testing.T) {
	seen := map[string]bool{}
	for number, c := range Chapters() {
		for place := range c.Exercises {
			e := &c.Exercises[place]
			t.Run(e.ID, func(t *testing.T) {
				if want := fmt.Sprintf("%d.%d", number+1, place+1); e.ID != want || seen[e.Question] || e.Why == "" {
					t.Errorf("found the ID %s, want %s, a question of its own and a reason", e.ID, want)
				}
				seen[e.Question] = true
				answer, err := e.Answer()
				if err != nil {
					t.Fatal(err)
				}
				if off, err := e.Check(answer); off != "" || err != nil {
					t.Errorf("its answer %s: found %q, %v", answer, off, err)
				}
				if off, err := e.Check("12345"); off == "" || err != nil {
					t.Errorf("a wrong answer: found %q, %v", off, err)
				}
				for _, s := range e.Slips {
					numbers, err := s.Numbers()
					if err != nil {
						t.Fatal(err)
					}
					text := strings.Trim(fmt.Sprint(numbers), "[]")
					if off, err := e.Check(text); off != s.Says || err != nil {
						t.Errorf("the slip %s: found %q, %v, want %q", text, off, err, s.Says)
					}
				}
			})
		}
	}
}

func TestCheckSaysWhatIsOff(t *testing.T) {
	e := &Exercise{ID: "0.0", Numbers: one(func() float64 { return -4.0 / 3 })}
	for text, want := range map[string]string{
		"-4/3":    "",
		"-1.3333": "",
		"4/3":     "the sign is not",
		"-8/3":    "twice too large",
		"-0.6667": "half of",
		"-0.75":   "one over",
		"-1.33":   "close, but not to four digits",
		"1":       "the sign is not right",
		"-3":      "too small",
		"-1":      "too large",
		"1,2":     "found 2 numbers, want 1",
	} {
		off, err := e.Check(text)
		if err != nil || want == "" && off != "" || !strings.Contains(off, want) {
			t.Errorf("%s: found %q, %v, want %q", text, off, err, want)
		}
	}
	for _, text := range []string{"", "x", "1/0", "NaN", "1e999"} {
		if _, err := e.Check(text); err == nil {
			t.Errorf("%q: found no error", text)
		}
	}
	if _, err := Find("9.1"); err == nil || !strings.Contains(err.Error(), "one of 1.1, 1.2,") {
		t.Errorf("found the error %v", err)
	}
}

// The chapters are there, ask the questions that are checked, and say how.
func TestChaptersAskTheExercises(t *testing.T) {
	for number, c := range Chapters() {
		data, err := os.ReadFile(filepath.Join("..", "..", "docs", "course", c.File))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(string(data)), " ")
		if title := fmt.Sprintf("# %d. %s", number+1, c.Title); !strings.HasPrefix(text, title) {
			t.Errorf("%s: want the title %q", c.File, title)
		}
		for _, e := range c.Exercises {
			if !strings.Contains(text, e.Question) {
				t.Errorf("%s: want the question %q", c.File, e.Question)
			}
			if !strings.Contains(text, "hippo course check "+e.ID+" ") {
				t.Errorf("%s: want hippo course check %s ANSWER", c.File, e.ID)
			}
		}
	}
}
