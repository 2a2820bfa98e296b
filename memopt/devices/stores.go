package devices

import (
	"memopt/internal/loader"
	"memopt/kernels/vulkan"
)

// Stores open devices as plain memory, by kind.
var Stores = map[string]func(which string) (loader.Device, error){
	"cpu": func(string) (loader.Device, error) { return loader.NewHost(), nil },
	"vulkan": func(which string) (loader.Device, error) {
		p, err := vulkan.Choose(which)
		if err != nil {
			return nil, err
		}
		return vulkan.OpenStore(p)
	},
}
