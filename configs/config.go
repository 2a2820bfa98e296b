package configs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Config is all settings, and the source of each that was given. Default is the one to start from;
// the zero Config gives nothing and can take part in a Merge.
type Config struct {
	Preset string // none, selective, full or auto; "": no preset

	Strategy         string // auto, keep-all, recompute-cheap, recompute-all or optimize
	Level            int    // 0, 1 or 2
	Requests         []Request
	Budget           Budget
	ActivationBudget Budget
	Cost             string  // what extra work counts in
	ForDevice        string  // a shipped profile, or a profile's file
	Replay           string  // who replays the plan of a recorded step
	Offload          string  // disk or host; "": nothing is moved
	HostBudget       int64   // bytes there; 0: no limit
	MaxOverhead      float64 // fraction of the step's work; 0: no limit (0% is stored as a tiny fraction)
	Boundary         bool
	Compat           string // "1.19", or empty
	Dims             map[string]int64

	Device        string // auto, cpu or vulkan
	ServiceBudget Budget
	Tune          bool     // Vulkan kernels are chosen by measuring
	FastPaths     []string // auto, none, or names of a Vulkan device's fast paths
	Optimize      string   // off, clean or fuse
	Shrink        string   // on, off or auto: keep exact extracts instead of values
	ChunkLoss     string   // on, off or auto: compute a loss of many classes some rows at a time
	SequenceTiles string   // on, off, auto or numbers of tiles: compute feed-forward layers some rows at a time
	Flash         string   // on, rows, off or auto: attention in tiles, or some queries at a time
	FuseChains    string   // on, off or auto: run elementwise chains as one launch
	Lossy         string   // off, bf16, fp16 or fp8: type to keep activations in
	Loss          string
	Trainable     []string
	Frozen        []string
	Tied          bool   // train although some parameters cannot be told apart
	States        string // disk or host: where optimizer states lie; "": in memory
	Optimizer     string // sgd, momentum, adam, adamw, lamb or adagrad
	LR            float64
	Warmup        int
	Momentum      float64
	Beta1, Beta2  float64
	Epsilon       float64
	WeightDecay   float64
	Nesterov      bool
	LRDecay       float64
	ClipNorm      float64 // 0: no clipping
	LossScale     LossScale
	ScaleWindow   int
	Accumulate    int
	Steps         int
	SpillFolder   string // "": the system's
	Seed          uint64

	LoadMode string // streamed, lazy, eager, inplace or all
	Chunk    int64  // bytes
	Reloads  int
	Repeats  int

	// Of forward sessions:
	MemoryLimit         int64  // bytes; 0: none
	ArenaStrategy       string // planned, kNextPowerOfTwo or kSameAsRequested
	CPUArena            bool
	MemoryPattern       bool
	MaxPatterns         int   // 0: depends on the graph's size
	InitialChunk        int64 // bytes of the arena's first region; 0: the arena's default, also below
	InitialGrowth       int64
	MaxDead             int64
	MaxPowerOfTwo       int64
	Threads             int
	OptimizedModelPath  string
	OptimizedModelFile  string // file of its weights; "": inside
	OptimizedModelFrom  int64  // least bytes of a weight in that file
	WeightType          string // int8, uint8, int16 or uint16
	PerChannel          bool
	ReduceRange         bool
	OpTypes             []string
	Nodes               []string
	Exclude             []string
	WeightSymmetric     string // on, off or auto
	ActivationSymmetric bool
	MatMulConstBOnly    string // on, off or auto
	EnableSubgraph      bool
	ForceQuantize       bool // quantize what moves a weight, too
	FoldTransposes      bool
	MinimumRealRange    float64
	ExternalData        bool

	// Of static quantization:
	Calibrate            string // file or folder of sample inputs
	CalibrateMethod      string // minmax, entropy or percentile
	QuantFormat          string // qdq or qoperator
	ActivationType       string
	CalibPercentile      float64
	CalibSymmetric       string // on, off or auto
	CalibMoving          bool
	CalibAverage         float64
	CalibStride          int
	ActivationRestricted bool
	PairToWeight         bool
	DedicatedPair        bool
	QuantizeBias         bool
	KeepRemovable        bool
	KeepWeightScales     bool
	ContribPairs         bool
	PlainResults         []string
	ChannelAxes          []string
	SigmoidNNAPI         bool

	Log          string // debug, devinfo, info, warn, error or fatal
	SaveONNXPath string

	given  map[string]Source // by name; replaced, never modified
	files  []string          // config files read
	face   Face              // face of the user
	unused []Setting         // given, but not used by the command
}

// Origin is the kind of a setting's source, weakest first.
type Origin uint8

// The origins of a setting.
const (
	OriginDefault Origin = iota
	OriginPreset
	OriginFile
	OriginEnv
	OriginFlag
)

// Source is where a setting was given. Name is the flag, variable or preset; a file named by a
// variable has both a Name and a Pos.
type Source struct {
	Origin Origin
	Name   string
	Pos    Pos
}

// String prints the source for a list of settings: --budget, MEMOPT_BUDGET, plan.json:3:12.
func (s Source) String() string {
	switch {
	case s.Origin == OriginDefault:
		return "default"
	case s.Origin == OriginPreset:
		return "preset " + s.Name
	case s.Origin != OriginFile:
		return s.Name
	case s.Name != "" && s.Name != s.Pos.File:
		return s.Pos.String() + " (" + s.Name + ")"
	}
	return s.Pos.String()
}

// Default returns every setting at its default.
func Default() Config {
	var c Config
	for _, r := range rows {
		r.reset(&c)
	}
	return c
}

// Source returns where a setting was given, if it was.
func (c Config) Source(name string) (Source, bool) {
	s, ok := c.given[name]
	return s, ok
}

// Exact is the settings of the same step with nothing rounded and everything kept, for comparison
// with a lossy step.
func (c Config) Exact() Config {
	c.Lossy, c.Shrink, c.Strategy, c.Level, c.Requests = "off", "off", "keep-all", 0, nil
	c.Budget, c.ActivationBudget, c.MaxOverhead = Budget{}, Budget{}, 0
	return c
}

// Set reads one setting from text, as of a flag, and records its source. Lists and objects may also
// be JSON, for names with commas.
func (c *Config) Set(name, s string, from Source) error {
	r, ok := Find(name)
	if !ok {
		return &Error{Pos{File: from.Name}, unknownField(name)}
	}
	v := textValue(&text{name: from.Name, s: s, flat: true})
	if slices.Contains(r.takes, gjson.JSON) && (strings.HasPrefix(s, "[") || strings.HasPrefix(s, "{")) && scan(s) == nil {
		v = jsonValue(v.from, "", gjson.Parse(s))
	}
	if err := r.read(c, v); err != nil {
		return err
	}
	c.give(name, from)
	return nil
}

// give records the source of a setting without changing other copies of c.
func (c *Config) give(name string, s Source) {
	given := maps.Clone(c.given)
	if given == nil {
		given = map[string]Source{}
	}
	given[name] = s
	c.given = given
}

// unknownField is the message about an unknown setting, with the most similar one.
func unknownField(name string) string {
	known := rowNames()
	if strings.HasSuffix(name, "+") {
		return fmt.Sprintf("unknown field %s, clusters are asked for by strings like \"BiasGelu+:1:-1\", in an array or in the field \"config\"", quote(name))
	}
	if near, ok := Nearest(name, known); ok {
		return fmt.Sprintf("unknown field %s, did you mean %q?", quote(name), near)
	}
	return fmt.Sprintf("unknown field %s; memopt config --schema lists those that there are", quote(name))
}

// Merge merges layers of settings. For each setting the strongest origin wins, and of equal origins
// the first layer; settings that no layer gives are at their defaults. The settings of the preset
// that wins are filled in.
func Merge(layers ...Config) Config {
	c := overlay(layers)
	if c.Preset == "" {
		return c
	}
	preset, err := Preset(c.Preset)
	if err != nil {
		panic(err) // the name was checked when it was read
	}
	return overlay(append([]Config{preset}, layers...))
}

// overlay is Merge without presets.
func overlay(layers []Config) Config {
	c := Default()
	for _, layer := range layers {
		c.files = append(c.files, layer.files...)
	}
	for _, r := range rows {
		best := OriginDefault
		for i := range layers {
			if s, ok := layers[i].given[r.Name]; ok && s.Origin > best {
				best = s.Origin
				r.copy(&c, &layers[i])
				c.give(r.Name, s)
			}
		}
	}
	return c
}

// Files lists the files that settings were read from.
func (c Config) Files() []string { return slices.Concat(c.files, listFiles(c.Trainable, c.Frozen)) }

// Setting is one setting for printing.
type Setting struct {
	Name   string
	Value  string
	Source Source
}

// NonDefaults lists the settings that were given with a value other than the default, by name.
func (c Config) NonDefaults() []Setting {
	def := Default()
	var list []Setting
	for _, r := range rows {
		s, ok := c.given[r.Name]
		if v := r.print(&c); ok && v != r.print(&def) {
			list = append(list, Setting{r.Name, v, s})
		}
	}
	slices.SortFunc(list, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Value is the value of a setting in the form that Set reads; "" for an unknown name.
func (c Config) Value(name string) string {
	r, known := Find(name)
	if !known {
		return ""
	}
	return r.print(&c)
}

// Given is Value, if the setting was given.
func (c Config) Given(name string) (string, bool) {
	r, known := Find(name)
	if _, ok := c.given[name]; !ok || !known {
		return "", false
	}
	return r.print(&c), true
}
