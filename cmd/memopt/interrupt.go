package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"memopt/memopt/whole"
)

// interrupts ends the program at a signal that asks for it, at once and with nothing
// left of files that are being written; or calls what a command has it call instead,
// once.
type interrupts struct {
	mu      sync.Mutex
	signals chan os.Signal
	instead func()
}

// ending are the interrupts of this process.
var ending interrupts

// listen begins, for signals that whoever started the program does not have it ignore,
// as nohup does.
func (n *interrupts) listen() {
	n.signals = make(chan os.Signal, 1)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(n.signals, s)
		}
	}
	go func() {
		for s := range n.signals {
			if instead := n.take(nil); instead != nil {
				instead()
				continue
			}
			whole.Abandon()
			os.Exit(128 + int(s.(syscall.Signal)))
		}
	}()
}

// leave has signals do what they do to any program.
func (n *interrupts) leave() {
	if n.signals != nil {
		signal.Stop(n.signals)
	}
}

// take has the next signal call something instead, and gives what it was to call.
func (n *interrupts) take(instead func()) (before func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before, n.instead = n.instead, instead
	return before
}
