package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"memopt/internal/whole"
)

// interrupts ends the program at an interrupt, and removes files that are being written; or calls a
// function that a command has set, once.
type interrupts struct {
	mu      sync.Mutex
	signals chan os.Signal
	instead func()
}

// ending handles the interrupts of this process.
var ending interrupts

// listen begins to handle signals, except those that the parent process has set to be ignored, as
// nohup does.
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

// leave restores the default handling of signals.
func (n *interrupts) leave() {
	if n.signals != nil {
		signal.Stop(n.signals)
	}
}

// take sets the function that the next interrupt calls, and returns the previous one.
func (n *interrupts) take(instead func()) (before func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before, n.instead = n.instead, instead
	return before
}
