package configs

import (
	"embed"
	"fmt"
)

// presetFiles are config files like any other.
//
//go:embed presets/*.json
var presetFiles embed.FS

// presetNames lists the presets by how much they recompute.
var presetNames = []string{"none", "selective", "full", "auto"}

// Preset returns the settings of a preset:
//
//	none       keep everything
//	selective  recompute what is cheap
//	full       recompute everything that may be
//	auto       recompute what the budget requires, at the least extra computation
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
