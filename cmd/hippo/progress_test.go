package main

import (
	"testing"
	"time"
)

// TestSaidAfter checks that a command that takes long prints once what it does, and that a quick one prints nothing.
func TestSaidAfter(t *testing.T) {
	said := make(chan string, 2)
	end := saidAfter(time.Millisecond, func(text string) { said <- text }, "reading")
	if text := <-said; text != "reading" {
		t.Errorf("found %q", text)
	}
	end()
	saidAfter(time.Hour, func(text string) { said <- text }, "writing")()
	if len(said) != 0 {
		t.Errorf("found %q too many", <-said)
	}
}
