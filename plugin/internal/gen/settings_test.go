package main

import (
	"os"
	"testing"
)

// TestTablesAreFresh: Python's keywords belong to the table of settings, its fields to the
// plan file.
func TestTablesAreFresh(t *testing.T) {
	for path, want := range map[string]string{keywords: settingsSource(), fields: fieldsSource(), rooms: roomsSource(), words: wordsSource()} {
		got, err := os.ReadFile("../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what the sources say: run `go generate ./configs`", path)
		}
	}
}
