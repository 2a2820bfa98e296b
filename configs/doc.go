// Package configs reads settings: config files, environment variables, texts of command-line flags,
// and presets. It knows the names of settings, how their values are written, and where they were
// given; what a setting does is not known here.
//
// Each setting is one row of the table in table.go and one field of Config. The row defines its
// flag and help, its environment variable, its field in config files and in the JSON Schema, its
// entry in the service's map, its keyword in Python, and which commands use it. Asked.Config is how
// a face of the program gets settings:
//
//	c, warnings, err := configs.Asked{
//		Command:  "plan",
//		Settings: map[string]string{"budget": "6GiB"},
//		Environ:  os.Environ(),
//	}.Config()
//
// It consists of these steps:
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
// A flag beats the environment, which beats a config file, which beats a preset, which beats the
// default.
//
// # The file
//
// A config file is JSON, at most 1 MiB: either ONNX Runtime's array of cluster strings, or an
// object with any of the fields that Schema describes.
//
//	["BiasGelu+:1:-1", "Dropout+:1:3"]
//
//	{"config": ["BiasGelu+:1:-1"], "budget": "6GiB", "dims": {"batch": 8}}
//
// Where a flag or variable takes the path of a file, ParseConfig also accepts the JSON itself, or
// cluster strings.
//
// Parsing is strict. An unknown field, a wrong type, an unknown strategy or text behind a number is
// an error that names the file, the line, the column, and what would work. ONNX Runtime accepts
// most of these and then does something else.
//
// A leading byte order mark is skipped, as in ONNX Runtime.
//
// # Cluster strings
//
//	string  = request { "," request }
//	request = id ":" strategy ":" count
//	count   = "-1" | "0" | positive | "{" range { "," range } "}"
//	range   = layer [ "-" layer ]
//
// The id is as plan prints it, "BiasGelu+". The strategy is 0 (off), 1 (recompute) or 2 (recompute
// with a compromise). The count is the number of the cluster's occurrences to use, in execution
// order, -1 for all; or the set of them in braces, from 0.
//
// A cluster may have one request, or one of each strategy with layers that do not overlap. Repeated
// and contradicting requests are errors: ONNX Runtime would silently use the last one, and at least
// one of them is a mistake.
//
// # Sizes
//
// 6GiB and 6G are 6·2³⁰ bytes, 6GB is 6·10⁹, 60% and 0.6 are shares of a total that the caller
// knows, and an integer is bytes.
package configs
