package vk

// Place is where a block should lie.
type Place uint8

// The places.
const (
	Near Place = iota // fast for the device, mapped if that costs nothing
	Host              // mapped, for what goes to and fro
)

// wanted are the flags of memory by place, best first: every device has the
// last.
func (p *Physical) wanted(place Place) []uint32 {
	switch {
	case place == Host:
		return []uint32{HostVisible | HostCoherent | HostCached, HostVisible | HostCoherent}
	case p.Unified():
		return []uint32{DeviceLocal | HostVisible | HostCoherent | HostCached, DeviceLocal | HostVisible | HostCoherent, DeviceLocal, 0}
	}
	return []uint32{DeviceLocal, 0}
}

// choose finds the type of memory for a block among those that its buffer
// allows, a bit each.
func (p *Physical) choose(place Place, allowed uint32) (kind int, mapped, ok bool) {
	for _, flags := range p.wanted(place) {
		for i, t := range p.Types {
			if allowed>>i&1 != 0 && t.Flags&flags == flags {
				const seen = HostVisible | HostCoherent
				return i, (place == Host || p.Unified()) && t.Flags&seen == seen, true
			}
		}
	}
	return 0, false, false
}
