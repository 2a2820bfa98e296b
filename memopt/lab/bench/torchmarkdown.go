package bench

import (
	"fmt"
	"io"
	"strings"
)

// torchTables writes the steps of PyTorch modules.
func torchTables(w io.Writer, models []TorchModel) {
	if len(models) == 0 {
		return
	}
	met, all := (&TorchReport{Models: models}).bars()
	fmt.Fprintf(w, "\n## torch\n\n%d of %d bars are met: measured bytes within the budget, and within 0.1 %% + 64 KiB of the promise; loss, gradients, buffers and\n"+
		"random state with eager mode's bits; FLOPs as promised, within 0.1 points, and at most those of the best checkpointing that keeps to the\n"+
		"budget; time at most 1.03 × that of the quickest of PyTorch's ways that keeps to the budget and computes the right gradients.\n"+
		"The knob is `torch._functorch.config.activation_memory_budget` under `torch.compile(backend=\"aot_eager\")`, asked for its setting's share of eager's peak.\n", met, all)
	for _, m := range models {
		fmt.Fprintf(w, "\n### %s\n\n", m.title())
		if len(m.Rows) == 0 {
			continue
		}
		table := m.table()
		for i, line := range table {
			for k := range line {
				line[k] = strings.ReplaceAll(line[k], "|", `\|`)
			}
			fmt.Fprintf(w, "| %s |\n", strings.Join(line, " | "))
			if i == 0 {
				fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", len(line)))
			}
		}
	}
}
