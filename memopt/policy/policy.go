package policy

import (
	"fmt"
	"slices"
	"strings"

	"memopt/planner"
)

// Policy is what settings say of checkpoints, before there is a step.
type Policy struct {
	From string   // the format
	Says string   // the settings that count, on one line
	Lost []string // what the settings say beyond that, which is not priced

	names []name // of parts of a model

	// Layers are the repeated blocks of the model that are checkpointed: those whose number it takes. Nil is none.
	Layers func(i int, module string) bool
	// Group is how many layers in a row make one region; 0 is one.
	Group int
	// Parts are checkpoints inside of layers, where layers are not checkpointed whole.
	Parts []part
	// Keep are the results that regions keep; the first that knows a node decides. A new one is made for each region.
	Keep func() keeps
	// Away regions have what they alone read of others elsewhere until they run again.
	Away bool
	// Apart are nodes of regions that are left to autograd: they never run again. Nil is none.
	Apart func(n *Node) bool
	// Whole regions run again to their last operator. Reentrant ones do, too, and hold what they make until backward is through.
	Whole, Reentrant bool
	// All is one region of the whole forward pass.
	All bool
	// Again are nodes that run again one by one, by name.
	Again []string
	// Offload is what moves without a checkpoint. Nil is nothing.
	Offload *planner.Offload
}

// name is what settings call a part of a model, and whether a node is of it.
type name struct {
	text string
	of   func(n *Node) bool
}

// call notes names that settings have for parts of the model.
func (p *Policy) call(setting string, names []string, of func(name string, n *Node) bool) {
	for _, text := range names {
		p.names = append(p.names, name{fmt.Sprintf("%s %s", setting, text), func(n *Node) bool { return of(text, n) }})
	}
}

// Unmet are the names that are of no node of a step, as of one that is misspelled, each told.
func (p *Policy) Unmet(nodes []*Node) (told []string) {
	for _, x := range p.names {
		if !slices.ContainsFunc(nodes, x.of) {
			told = append(told, x.text+" names nothing in this step")
		}
	}
	return told
}

// keeps says whether a region keeps the results of a node.
type keeps func(n *Node) bool

// Node is a forward node of a step.
type Node struct {
	ID        int32
	Name, Op  string
	Module    string
	Outputs   []string // names of its results
	Attention bool     // is a kernel of attention
	Product   bool     // counts flops as a matrix product
	Heavy     bool     // counts flops
	Weight    string   // the shape of the parameter that it reads, if it reads one
}

// format is a kind of file: how its settings are told and read, and what it can say.
type format struct {
	name string
	doc  string
	is   func(s *settings) bool
	read func(s *settings, p *Policy) error
	// says lists settings that come near to a plan, each with the text that a user gives the trainer. Nil is a format that
	// is read only.
	says func(w *wanted) ([]said, error)
}

// formats is the table; files are of the first that knows one.
var formats = []format{
	{"memopt", "memopt export --to pytorch", ofMemopt, readMemopt, nil},
	{"offload", "the values that a step's own hooks move, as memopt.explain finds them", ofOffload, readOffload, nil},
	{"torchtitan", "torchtitan's activation_checkpoint and memory_policy", ofTorchtitan, readTorchtitan, sayTorchtitan},
	{"megatron", "Megatron's --recompute-granularity, --recompute-modules", ofMegatron, readMegatron, sayMegatron},
	{"maxtext", "MaxText's remat_policy", ofMaxText, readMaxText, sayMaxText},
	{"torch_remat", "torch_remat's checkpoints and save regions", ofRemat, readRemat, sayRemat},
	{"axolotl", "axolotl's gradient_checkpointing", ofAxolotl, readAxolotl, sayAxolotl},
	{"huggingface", "Hugging Face's gradient_checkpointing and its kwargs", ofHuggingFace, readHuggingFace, sayHuggingFace},
	{"torchtune", "torchtune's enable_activation_checkpointing, ac_mode, ac_option", ofTorchtune, readTorchtune, nil},
	{"fsdp", "accelerate's fsdp_activation_checkpointing", ofFSDP, readFSDP, nil},
	{"jax", "jax.checkpoint_policies.save_only_these_names", ofJAX, readJAX, nil},
}

// Read reads a file.
func Read(path string) (*Policy, error) {
	s, err := readSettings(path)
	if err != nil {
		return nil, err
	}
	var known []string
	for _, f := range formats {
		if f.is(s) {
			p := &Policy{From: f.name}
			if err := f.read(s, p); err != nil {
				return p, err
			}
			p.movesAll()
			return p, nil
		}
		known = append(known, f.doc)
	}
	return nil, fmt.Errorf("%s: no key says what is checkpointed; known are %s", path, strings.Join(known, "; "))
}

// everyLayer takes all layers.
func everyLayer(int, string) bool { return true }

// keepNone keeps nothing.
func keepNone() keeps { return func(*Node) bool { return false } }
