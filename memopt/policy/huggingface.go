package policy

import (
	"fmt"
	"strings"
)

// Transformers checkpoints each layer, or every few of them, from the first on. The keys were gradient_checkpointing before
// they were activation_checkpointing, and both are read.
var checkpointingKeys = []string{"activation_checkpointing", "gradient_checkpointing"}

func ofHuggingFace(s *settings) bool {
	return s.has(checkpointingKeys...) || s.has("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs")
}

func readHuggingFace(s *settings, p *Policy) error {
	on := false
	for _, key := range checkpointingKeys {
		is, err := s.on(key)
		if err != nil {
			return err
		}
		on = on || is
	}
	return readLayered(s, p, on)
}

// readLayered reads the arguments of Transformers' checkpoints.
func readLayered(s *settings, p *Policy, on bool) error {
	if !on {
		p.Says = "checkpointing is off"
		return nil
	}
	every, reentrant := 1, false
	for _, key := range checkpointingKeys {
		n, err := s.number(key+"_kwargs.every_n_layers", 1, 1)
		if err != nil {
			return err
		}
		is, err := s.on(key + "_kwargs.use_reentrant")
		if err != nil {
			return err
		}
		every, reentrant = max(every, n), reentrant || is
	}
	p.Layers = func(i int, _ string) bool { return i%every == 0 }
	p.Reentrant = reentrant
	p.Says = "each layer"
	if every > 1 {
		p.Says = fmt.Sprintf("every_n_layers=%d", every)
	}
	if reentrant {
		p.Says += ", use_reentrant"
	}
	return nil
}

// everyLayers are the settings of Transformers: off, and each to every few layers.
func everyLayers(w *wanted, off, on string, several func(n int) string) ([]said, error) {
	all := []said{{policy: &Policy{}, text: off}}
	for n := 1; n <= max(w.layers/2, 1); n++ {
		text := on
		if n > 1 {
			text = several(n)
		}
		all = append(all, said{&Policy{Layers: func(i int, _ string) bool { return i%n == 0 }}, text})
	}
	return all, nil
}

func sayHuggingFace(w *wanted) ([]said, error) {
	return everyLayers(w, "{\"gradient_checkpointing\": false}\n",
		"{\"gradient_checkpointing\": true, \"gradient_checkpointing_kwargs\": {\"use_reentrant\": false}}\n",
		func(n int) string {
			return fmt.Sprintf("{\"gradient_checkpointing\": true, \"gradient_checkpointing_kwargs\": {\"use_reentrant\": false, \"every_n_layers\": %d}}\n", n)
		})
}

// Axolotl hands the same arguments on, and has ways of its own to move what layers keep.
func ofAxolotl(s *settings) bool {
	return s.has("base_model", "activation_offloading", "selective_checkpointing") && (ofHuggingFace(s) || s.has("activation_offloading"))
}

func readAxolotl(s *settings, p *Policy) error {
	how := strings.ToLower(fmt.Sprint(s.values["gradient_checkpointing"]))
	moved := how == "offload" || how == "offload_disk"
	if v, ok := s.values["activation_offloading"]; ok && v != false && v != nil {
		moved = true
	}
	p.Away = moved
	if s.has("selective_checkpointing") {
		p.Lost = append(p.Lost, "selective_checkpointing is not priced")
	}
	on := how == "offload" || how == "offload_disk"
	if !on {
		for _, key := range checkpointingKeys {
			is, err := s.on(key)
			if err != nil {
				return err
			}
			on = on || is
		}
	}
	return readLayered(s, p, on)
}

func sayAxolotl(w *wanted) ([]said, error) {
	return everyLayers(w, "gradient_checkpointing: false\n", "gradient_checkpointing: true\ngradient_checkpointing_kwargs:\n  use_reentrant: false\n",
		func(n int) string {
			return fmt.Sprintf("gradient_checkpointing: true\ngradient_checkpointing_kwargs:\n  use_reentrant: false\n  every_n_layers: %d\n", n)
		})
}

// Torchtune checkpoints every layer, every few, or operators as torchtitan did.
func ofTorchtune(s *settings) bool { return s.has("enable_activation_checkpointing", "ac_mode") }

func readTorchtune(s *settings, p *Policy) error {
	on, err := s.on("enable_activation_checkpointing")
	if err != nil {
		return err
	}
	if moved, err := s.on("enable_activation_offloading"); err != nil {
		return err
	} else if moved {
		p.Away = true
	}
	mode, err := s.choice("ac_mode", "full", "full", "selective", "none")
	if err != nil {
		return err
	}
	if s.has("ac_mode") && mode != "none" {
		on = true
	}
	switch {
	case !on || mode == "none":
		p.Says = "checkpointing is off"
	case mode == "selective" && s.has("ac_option") && fmt.Sprint(s.values["ac_option"]) != "op":
		n, err := s.number("ac_option", 1, 1)
		if err != nil {
			return err
		}
		everyTitan(p, n)
	case mode == "selective":
		selectiveTitan(p, nil)
	default:
		p.Layers, p.Says = everyLayer, "each layer"
	}
	return nil
}

// Accelerate wraps what FSDP wraps.
func ofFSDP(s *settings) bool {
	return s.has("fsdp_config.fsdp_activation_checkpointing", "fsdp_config.activation_checkpointing")
}

func readFSDP(s *settings, p *Policy) error {
	for _, key := range []string{"fsdp_config.fsdp_activation_checkpointing", "fsdp_config.activation_checkpointing"} {
		on, err := s.on(key)
		if err != nil {
			return err
		}
		if on {
			p.Layers, p.Says = everyLayer, "each wrapped layer"
			return nil
		}
	}
	p.Says = "checkpointing is off"
	return nil
}
