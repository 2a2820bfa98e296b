//go:build !unix

package main

import "os"

// fitLimits does nothing: there are no limits of the shell.
func fitLimits() error { return nil }

// unread cannot be determined here before writing.
func unread(*os.File) bool { return false }
