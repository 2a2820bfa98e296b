package vk

// Place is the kind of memory of a block.
type Place uint8

// The places.
const (
	Near Place = iota // device-local; mapped if the memory is unified
	Host              // host-visible and mapped, for transfers
)

// wanted returns the memory flags of a place, best first; every device has the last.
func (p *Physical) wanted(place Place) []uint32 {
	switch {
	case place == Host:
		return []uint32{HostVisible | HostCoherent | HostCached, HostVisible | HostCoherent}
	case p.Unified():
		return []uint32{DeviceLocal | HostVisible | HostCoherent | HostCached, DeviceLocal | HostVisible | HostCoherent, DeviceLocal, 0}
	}
	return []uint32{DeviceLocal, 0}
}

// choose finds the memory type for a block among those in the bit mask allowed.
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
