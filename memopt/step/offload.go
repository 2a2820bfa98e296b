package step

import (
	"fmt"

	"memopt/configs"
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
		if c.HostBudget > 0 && c.States == "" {
			return fmt.Errorf("%s limits what is moved elsewhere, and nothing is: %s moves values, and %s optimizer states",
				c.Say("host_budget", fmt.Sprint(c.HostBudget)), c.Say("offload", profile.Disk), c.Say("states", profile.Disk))
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

// budgetsStates says why a plan cannot have as many states leave as its budget asks for.
func (m *Model) budgetsStates() error {
	c := m.Config
	if c.States != devices.StatesAuto || c.Budget != (configs.Budget{}) {
		return nil
	}
	auto, or := c.Say("states", c.States), fmt.Sprintf("give %s, or %s for all to leave", c.Say("budget", "6GiB"), c.Say("states", devices.StatesAt(c)))
	if c.ActivationBudget != (configs.Budget{}) {
		return exit.Input(fmt.Errorf("%s has as many states leave as a budget asks for, and %s limits the arena alone, where none lie: %s", auto, c.Name("activation_budget"), or))
	}
	return exit.Input(fmt.Errorf("%s has as many states leave as a budget asks for, and there is none: %s", auto, or))
}

// RunsMoves says why the device of the settings cannot run the moves of a plan.
func (m *Model) RunsMoves(p *planner.Plan) error {
	if len(p.Moves) > 0 {
		if err := devices.OffloadsOn(m.Config, "offload", p.Moved.Place); err != nil {
			return exit.Cannot(err)
		}
	}
	if s := p.Streamed(); s != nil && s.Bytes > 0 {
		if err := devices.OffloadsOn(m.Config, "states", p.Request.States); err != nil {
			return exit.Cannot(err)
		}
	}
	return nil
}
