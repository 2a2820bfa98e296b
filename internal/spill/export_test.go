package spill

// ThroughCache has a file go through the system's cache, as on file systems that cannot pass it.
func ThroughCache(f *File) {
	throughCache(f.file)
	f.direct = nil
}
