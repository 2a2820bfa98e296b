// Package configs reads settings: a config file, environment variables, the text
// of command-line flags, and ready-made presets. It knows what a setting is called,
// how it is written and where it came from; what it does is not known here.
//
// Each setting is one row of the table in table.go and one field of Config. Its flag and
// help, its environment variable, its field of a config file and of the JSON Schema, its
// entry in the service's map and its keyword in Python are made from the row, and so is
// which commands heed it. Asked.Config is how a face of the program gets settings:
//
//	c, warnings, err := configs.Asked{
//		Command:  "plan",
//		Settings: map[string]string{"budget": "6GiB"},
//		Environ:  os.Environ(),
//	}.Config()
//
// What it is made of:
//
//	file, err := configs.ParseFile("plan.json")
//	env, warnings, err := configs.FromEnv(os.LookupEnv)
//	var flags configs.Config
//	err = flags.Set("budget", "6GiB", configs.Source{Origin: configs.OriginFlag, Name: "--budget"})
//	c := configs.Merge(flags, env, file)
//	for _, s := range c.NonDefaults() {
//		fmt.Println(s.Name, s.Value, s.Source) // budget 6GiB --budget
//	}
//
// A flag beats the environment, which beats a config file, which beats a preset,
// which beats the default.
//
// # The file
//
// A config file is JSON, at most 1 MiB: either ONNX Runtime's array of cluster
// strings, or an object with any of the fields that Schema describes.
//
//	["BiasGelu+:1:-1", "Dropout+:1:3"]
//
//	{"config": ["BiasGelu+:1:-1"], "budget": "6GiB", "dims": {"batch": 8}}
//
// Where a flag or variable names a file, ParseConfig takes its JSON, or cluster
// strings alone, in its place.
//
// Parsing is strict. An unknown field, a wrong type, a strategy that does not exist,
// a number with something behind it: each is an error that names the file, the line, the
// column, and what would work. ONNX Runtime accepts most of these and then does something else.
//
// A byte order mark in front is skipped, as ONNX Runtime does.
//
// # Cluster strings
//
//	string  = request { "," request }
//	request = id ":" strategy ":" count
//	count   = "-1" | "0" | positive | "{" range { "," range } "}"
//	range   = layer [ "-" layer ]
//
// The id is as plan prints it, "BiasGelu+". The strategy is 0 (off), 1 (compute
// again) or 2 (compute again with a compromise). The count is how many of the
// cluster's occurrences take part, in execution order, -1 for all; or the set of them in braces, from 0.
//
// A cluster stands in one request, or in one of each strategy with layers that do not
// overlap. The same request twice is refused like two that contradict each other: ONNX
// Runtime would take the last one without a word, and one of them was meant otherwise.
//
// # Sizes
//
// 6GiB and 6G are 6·2³⁰ bytes, 6GB is 6·10⁹, 60% and 0.6 are a share of whatever the
// caller measures against, and a whole number is bytes.
package configs
