//go:build unix && !linux

package plugin

func watchProcess(pid int, gone func()) { pollProcess(pid, gone) }
