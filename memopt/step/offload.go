package step

import (
	"fmt"

	"memopt/memopt/devices"
	"memopt/memopt/exit"
	"memopt/planner"
	"memopt/planner/profile"
)

// canOffload says why plans cannot move values as the settings ask for.
func (m *Model) canOffload() error {
	c := m.Config
	if c.States != "" && c.ForDevice == "" && !m.Recorded() {
		if err := devices.OffloadsOn(c, "states", c.States); err != nil {
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
		return devices.OffloadsOn(c, "offload", c.Offload)
	}
	return nil
}

// RunsMoves says why the device of the settings cannot run the moves of a plan.
func (m *Model) RunsMoves(p *planner.Plan) error {
	if len(p.Moves) > 0 {
		if err := devices.OffloadsOn(m.Config, "offload", p.Moved.Place); err != nil {
			return exit.Cannot(err)
		}
	}
	if p.Request.States != "" {
		if err := devices.OffloadsOn(m.Config, "states", p.Request.States); err != nil {
			return exit.Cannot(err)
		}
	}
	return nil
}
