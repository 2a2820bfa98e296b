package memopt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"memopt/memopt/whole"
	"memopt/planner/profile"
)

// What settings say of costs.
const (
	costAuto  = "auto"  // time where a profile is named, else flops and bytes
	costTime  = "time"  // nanoseconds of a profile
	costFlops = "flops" // flops and bytes
)

// price chooses the profile that plans are priced by: of --for, else the one measured on this device, else the shipped
// one of its class.
func (m *Model) price() error {
	c := m.Config
	if c.Cost == costFlops {
		if c.ForDevice != "" {
			return input(fmt.Errorf("%s prices plans for %s, and %s counts flops and bytes: leave one out", c.Name("for_device"), c.ForDevice, c.Name("cost")))
		}
		return nil
	}
	if c.ForDevice != "" {
		p, err := profileOf(c.ForDevice)
		if err != nil {
			return input(err)
		}
		m.Priced = p
		return nil
	}
	if c.Cost != costTime {
		return nil
	}
	p, err := DeviceProfile(c.Device)
	if err != nil {
		return codedError{err, ExitCannot}
	}
	m.Priced = p
	return nil
}

// Unit is what extra costs of the model's plans are: time or compute.
func (m *Model) Unit() string {
	if m.Priced != nil || m.Profiled != "" {
		return "time"
	}
	return "compute"
}

// profileOf is a shipped profile by name, or one in a file.
func profileOf(name string) (*profile.Profile, error) {
	if strings.HasSuffix(name, ".json") || strings.ContainsRune(name, filepath.Separator) {
		return profile.Read(name)
	}
	return profile.For(name)
}

// DeviceProfile is the profile of a device of this machine: the one that was measured, or the shipped one of its class.
func DeviceProfile(device string) (*profile.Profile, error) {
	path, err := ProfilePath(device)
	if err == nil {
		p, err := profile.Read(path)
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return p, err
		}
	}
	if !Lowered(device) {
		return profile.For(profile.OfCPU)
	}
	return nil, fmt.Errorf("nothing is known of what operators cost on device %s: measure it with memopt profile --device %s, or name a device with --for", device, device)
}

// ProfilePath is where the measured profile of a device is kept.
func ProfilePath(device string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("there is no cache folder: %w", err)
	}
	kind, which, err := findDevice(device)
	if err != nil {
		return "", err
	}
	name := kind.name
	if which != "" {
		name += "-" + strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
				return r
			}
			return '_'
		}, which)
	}
	return filepath.Join(cache, "memopt", "profiles", name+".json"), nil
}

// KeepProfile writes a measured profile where DeviceProfile looks for it.
func KeepProfile(device string, p *profile.Profile) (path string, err error) {
	if path, err = ProfilePath(device); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	return path, whole.Bytes(path, p.JSON())
}
