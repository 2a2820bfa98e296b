package configs

import (
	"encoding/json"
	"maps"
)

// Schema returns the JSON Schema (draft 2020-12) of a config file, made from the table of settings.
// The parser checks more than a schema can express, and ignores the case of words, which the schema
// has in lower case.
func Schema() []byte {
	properties := map[string]any{
		schemaKey: map[string]any{"type": "string", "description": "Where an editor finds this schema."},
	}
	for _, r := range rows {
		p := maps.Clone(r.json)
		p["description"] = r.Help()
		properties[r.Name] = p
	}
	schema := map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "memopt config",
		"anyOf": []any{
			requestArray,
			map[string]any{"type": "object", "properties": properties, "additionalProperties": false},
		},
	}
	out, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic("configs: schema: " + err.Error())
	}
	return append(out, '\n')
}
