package main

import (
	"os"
	"testing"
)

// TestSettingsAreFresh: Python's keywords belong to the table.
func TestSettingsAreFresh(t *testing.T) {
	got, err := os.ReadFile("../../" + keywords)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != settingsSource() {
		t.Error("the table of settings has changed: run `go generate ./configs`")
	}
}
