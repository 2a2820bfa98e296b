package configs

import (
	"embed"
	"fmt"
)

// presetFiles are config files like any other.
//
//go:embed presets/*.json
var presetFiles embed.FS

// presetNames is the presets by how much is computed again.
var presetNames = []string{"none", "selective", "full", "auto"}

// Preset returns ready-made settings:
//
//	none       everything is kept
//	selective  what is cheap is computed again
//	full       everything that may be is computed again
//	auto       whatever the budget asks for, at the least extra computation
func Preset(name string) (Config, error) {
	v := textValue(&text{name: "preset", s: name, flat: true})
	word, err := choice(presetNames, nil).parse(v)
	if err != nil {
		return Config{}, err
	}
	file := "presets/" + word + ".json"
	src, err := presetFiles.ReadFile(file)
	if err != nil {
		panic(fmt.Sprintf("configs: preset %s has no file: %v", word, err))
	}
	c, err := ParseJSON(src, file)
	if err != nil {
		panic(err)
	}
	for name := range c.given {
		c.give(name, Source{Origin: OriginPreset, Name: word})
	}
	return c, nil
}
