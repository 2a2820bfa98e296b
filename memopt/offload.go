package memopt

import (
	"fmt"

	"memopt/configs"
	"memopt/internal/spill"
	"memopt/kernels/cpu"
	"memopt/memopt/exit"
	"memopt/planner"
	"memopt/planner/profile"
)

// canOffload says why plans cannot move values as the settings ask for.
func (m *Model) canOffload() error {
	c := m.Config
	if c.States != "" && c.ForDevice == "" && !m.Recorded() {
		if err := offloadsOn(c, "states", c.States); err != nil {
			return err
		}
	}
	if c.Offload == "" {
		if c.HostBudget > 0 {
			return fmt.Errorf("%s limits what is moved elsewhere, and nothing is: %s moves values", c.Say("host_budget", fmt.Sprint(c.HostBudget)), c.Say("offload", profile.Disk))
		}
		return nil
	}
	if c.Cost == costFlops {
		return fmt.Errorf("%s weighs the time of copies, and %s counts flops and bytes: leave one out", c.Say("offload", c.Offload), c.Say("cost", costFlops))
	}
	if c.ForDevice == "" && !m.Recorded() {
		return offloadsOn(c, "offload", c.Offload)
	}
	return nil
}

// offloadsOn says why the device of the settings cannot move values to the place that a setting names.
func offloadsOn(c configs.Config, setting, place string) error {
	if place == profile.Host && !Lowered(c.Device) {
		return fmt.Errorf("%s: the cpu device works in the host's memory, where moving values frees none; %s moves them to a file, and %s plans for a GPU",
			c.Say(setting, place), c.Say(setting, profile.Disk), c.Name("for_device"))
	}
	if place == profile.Disk && Lowered(c.Device) {
		return fmt.Errorf("%s: device %s copies to the host's memory, and to no file: %s moves them there, and %s to a file", c.Say(setting, place), c.Device, c.Say(setting, profile.Host), c.Say("device", "cpu"))
	}
	return nil
}

// runsMoves says why the device of the settings cannot run the moves of a plan.
func (m *Model) runsMoves(p *planner.Plan) error {
	if len(p.Moves) > 0 {
		if err := offloadsOn(m.Config, "offload", p.Moved.Place); err != nil {
			return exit.Cannot(err)
		}
	}
	if p.Request.States != "" {
		if err := offloadsOn(m.Config, "states", p.Request.States); err != nil {
			return exit.Cannot(err)
		}
	}
	return nil
}

// spills opens the file that values are moved to.
func spills(c configs.Config, bytes int64) (cpu.Far, error) {
	f, err := spill.Open(c.SpillFolder, bytes)
	if err != nil {
		return nil, exit.Cannot(fmt.Errorf("%s: %w; %s names a folder on another disk", keeps(c), err, c.Name("spill_folder")))
	}
	if f.InMemory() {
		f.Close()
		return nil, exit.Cannot(fmt.Errorf("%s: folder %s is in memory, where moving values frees none; %s names a folder on a disk", keeps(c), f.Folder(), c.Name("spill_folder")))
	}
	return f, nil
}

// keeps spells the setting that has bytes on a disk.
func keeps(c configs.Config) string {
	if c.Offload != "" {
		return c.Say("offload", c.Offload)
	}
	return c.Say("states", c.States)
}
