package memopt

import (
	"memopt/internal/loader"
	"memopt/kernels/vulkan"
)

// loadDevices open devices as plain memory, by kind.
var loadDevices = map[string]func(which string) (loader.Device, error){
	"cpu": func(string) (loader.Device, error) { return loader.NewHost(), nil },
	"vulkan": func(which string) (loader.Device, error) {
		p, err := vulkan.Choose(which)
		if err != nil {
			return nil, err
		}
		return vulkan.OpenStore(p)
	},
}
