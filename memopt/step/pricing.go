package step

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"memopt/internal/graph"
	"memopt/internal/whole"
	"memopt/memopt/devices"
	"memopt/memopt/exit"
	"memopt/planner"
	"memopt/planner/profile"
)

// costFlops is the setting by which costs are flops and bytes; else they are nanoseconds of a profile.
const costFlops = "flops"

// What --profile names, beside files.
const (
	profileMeasured = "measured" // what was measured of the device
	profileShipped  = "shipped"  // what its data sheet or its class says
)

// Price chooses the profile that plans are priced by: of --for, else the one measured on the device, else the shipped one of its
// class.
func (m *Model) Price() error {
	c := m.Config
	if err := m.canOffload(); err != nil {
		return exit.Input(err)
	}
	if c.Cost == costFlops {
		if c.ForDevice != "" {
			return exit.Input(fmt.Errorf("%s prices plans for %s, and %s counts flops and bytes: leave one out", c.Name("for_device"), c.ForDevice, c.Name("cost")))
		}
		return nil
	}
	if c.ForDevice != "" {
		p, err := profileOf(c.ForDevice)
		if err != nil {
			return exit.Input(err)
		}
		m.priceBy(p)
		return nil
	}
	p, err := m.measuredProfile()
	if p == nil && err == nil {
		p = m.shippedProfile()
	}
	if err != nil {
		return exit.Cannot(err)
	}
	m.priceBy(p)
	return nil
}

// priceBy prices plans by a profile. Devices of ours are handed whole steps, so that no program launches operators one by one; a
// trainer replays a recorded step as the setting says.
func (m *Model) priceBy(p *profile.Profile) {
	if m.Priced, m.pricedAgain = p.By(profile.Captured), nil; m.Recorded() {
		m.Priced = p.By(m.Config.Replay)
		if _, known := p.Replays[profile.Checkpoint]; known {
			m.pricedAgain = p.By(profile.Checkpoint)
		}
	}
}

// useDevice prices plans by what was measured of the device, or by what is shipped, instead of what there is.
func (m *Model) useDevice(which string) error {
	p := m.shippedProfile()
	if which == profileMeasured {
		measured, err := m.measuredProfile()
		if err == nil && measured == nil {
			err = fmt.Errorf("nothing was measured of the device: %s", m.howToMeasure())
		}
		if err != nil {
			return exit.Cannot(err)
		}
		p = measured
	}
	m.priceBy(p)
	return nil
}

// howToMeasure is the command that measures the profile of the model's device.
func (m *Model) howToMeasure() string {
	if m.Recorded() {
		return "python -m memopt profile-torch"
	}
	return "memopt profile --device " + cmp.Or(m.Config.Device, "auto")
}

// shippedProfile is the profile of the device's class, or of the trainer's device by its name.
func (m *Model) shippedProfile() *profile.Profile {
	if m.Recorded() {
		return profile.OfTrainer(m.Graph.Trainer)
	}
	name := profile.OfCPU
	if devices.Lowered(m.Config.Device) {
		name = profile.OfGPU
	}
	return profile.Class(name)
}

// measuredProfile is the profile that was measured of the device, or nil.
func (m *Model) measuredProfile() (*profile.Profile, error) {
	path, err := profilePath(m.Config.Device)
	if m.Recorded() {
		path, err = trainerPath(m.Graph.Trainer)
	}
	if err != nil {
		return nil, nil // no folder or no such device, which opening it tells
	}
	p, err := profile.Read(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return p, err
}

// Unit is what extra costs of the model's plans are: time or compute.
func (m *Model) Unit() string {
	return planner.Unit(m.Priced != nil || m.Profiled != "")
}

// profileOf is a shipped profile by name, or one in a file.
func profileOf(name string) (*profile.Profile, error) {
	if strings.HasSuffix(name, ".json") || strings.ContainsRune(name, filepath.Separator) {
		return profile.Read(name)
	}
	return profile.For(name)
}

// profilePath is where the measured profile of a device is kept.
func profilePath(device string) (string, error) {
	kind, which, err := devices.Find(device)
	if err != nil {
		return "", err
	}
	return profileFile(kind.Name, which)
}

// trainerPath is where the measured profile of a trainer's device is kept; Python's package writes it there.
func trainerPath(t graph.Trainer) (string, error) {
	if t.Driver == "" {
		return "", errors.New("the recording does not tell with what it was made")
	}
	return TrainerFile(t.Device, t.Driver)
}

// TrainerFile is where the profile that a trainer measured is kept.
func TrainerFile(device, driver string) (string, error) { return profileFile("torch", device, driver) }

// profileFile is the file of a profile in the cache.
func profileFile(parts ...string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("there is no cache folder: %w", err)
	}
	name := strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "-")
	name = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' {
			return r
		}
		return '_'
	}, name)
	return filepath.Join(cache, "memopt", "profiles", name+".json"), nil
}

// KeepProfile writes a measured profile where plans look for it.
func KeepProfile(device string, p *profile.Profile) (path string, err error) {
	if path, err = profilePath(device); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	return path, whole.Bytes(path, p.JSON())
}
