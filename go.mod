module memopt

go 1.26.0

require (
	github.com/BurntSushi/toml v1.5.0 // settings of other trainers
	github.com/google/go-cmp v0.7.0 // tests: differences of texts that a reviewer reads
	github.com/hashicorp/go-hclog v1.6.3 // what go-plugin logs through; adapted to slog in one file
	github.com/hashicorp/go-plugin v1.8.0 // the service behind the Python package
	github.com/rogpeppe/go-internal v1.16.0 // tests: command lines as scripts with their files inside
	github.com/tidwall/gjson v1.20.0 // settings: values with their byte offsets, for errors with line and column
	github.com/urfave/cli/v2 v2.27.7 // commands and flags
	github.com/vulkan-go/vulkan v0.0.0-20221209234627-c0a353ae26c8 // Vulkan's instance, devices and memory; it has no tags
	golang.org/x/sys v0.49.0 // mapped files, CPU features
	golang.org/x/term v0.46.0 // whether there is a terminal, and how wide it is
	google.golang.org/grpc v1.85.0 // spoken by go-plugin
	google.golang.org/protobuf v1.36.12 // protowire, to walk ONNX files without copies; messages of the service
	gopkg.in/yaml.v3 v3.0.1 // settings of other trainers
	pgregory.net/rapid v1.3.0 // tests: properties with shrinking
)

require (
	github.com/cpuguy83/go-md2man/v2 v2.0.7 // indirect
	github.com/fatih/color v1.13.0 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/hashicorp/yamux v0.1.2 // indirect
	github.com/mattn/go-colorable v0.1.12 // indirect
	github.com/mattn/go-isatty v0.0.17 // indirect
	github.com/oklog/run v1.1.0 // indirect
	github.com/russross/blackfriday/v2 v2.1.0 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.0 // indirect
	github.com/xrash/smetrics v0.0.0-20240521201337-686a1a2994c1 // indirect
	golang.org/x/exp/typeparams v0.0.0-20231108232855-2478ac86f678 // indirect
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	golang.org/x/tools v0.51.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	honnef.co/go/tools v0.8.2 // indirect
)

tool honnef.co/go/tools/cmd/staticcheck
