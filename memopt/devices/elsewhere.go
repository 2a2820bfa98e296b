package devices

import (
	"fmt"

	"memopt/configs"
	"memopt/internal/spill"
	"memopt/kernels/cpu"
	"memopt/memopt/exit"
	"memopt/planner/profile"
)

// OffloadsOn says why the device of the settings cannot move values to the place that a setting names.
func OffloadsOn(c configs.Config, setting, place string) error {
	if place == profile.Host && !Lowered(c.Device) {
		return fmt.Errorf("%s: the cpu device works in the host's memory, where moving values frees none; %s moves them to a file, and %s plans for a GPU",
			c.Say(setting, place), c.Say(setting, profile.Disk), c.Name("for_device"))
	}
	if kind, _, err := Find(c.Device); err == nil && kind.Lowered && place == profile.Disk {
		return fmt.Errorf("%s: the %s device copies to the host's memory, and to no file: %s moves values there, and %s to a file",
			c.Say(setting, place), kind.Name, c.Say(setting, profile.Host), c.Say("device", "cpu"))
	}
	return nil
}

// StatesAuto is the setting of states that leaves to the planner how many of them leave.
const StatesAuto = "auto"

// StatesAt is where the settings have states of optimizers leave for: of auto the place that the device has.
func StatesAt(c configs.Config) string {
	switch {
	case c.States != StatesAuto:
		return c.States
	case c.ForDevice != "" || Lowered(c.Device):
		return profile.Host
	}
	return profile.Disk
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
