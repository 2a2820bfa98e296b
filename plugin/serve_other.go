//go:build !unix

package plugin

import "runtime"

// Serve returns an error here: the service needs a socket in a private folder.
func Serve(Front) error {
	return refusal("memopt serve: needs unix sockets, which " + runtime.GOOS + " does not have in a form go-plugin uses")
}
