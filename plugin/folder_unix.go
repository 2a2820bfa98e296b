//go:build unix

package plugin

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A socket's path must fit sun_path with its closing zero; go-plugin names it plugin and up to ten digits.
const maxFolder = 107 - len("/plugin4294967295")

// socketFolder returns the folder the socket goes to: the host's, if it is private, or a new one of our own.
// The socket itself is open to all that umask lets in, so the folder is the lock.
func socketFolder(given string) (folder string, own bool, err error) {
	if given == "" {
		folder, err = newFolder()
		return folder, true, err
	}
	info, err := os.Lstat(given)
	switch {
	case err != nil:
		return "", false, refusal(fmt.Sprintf("memopt serve: PLUGIN_UNIX_SOCKET_DIR: %v", err))
	case !filepath.IsAbs(given):
		return "", false, refusal(fmt.Sprintf("memopt serve: PLUGIN_UNIX_SOCKET_DIR %q is not an absolute path", given))
	case !info.IsDir():
		return "", false, refusal(fmt.Sprintf("memopt serve: PLUGIN_UNIX_SOCKET_DIR %q is not a folder", given))
	case info.Mode()&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0o700:
		return "", false, refusal(fmt.Sprintf("memopt serve: PLUGIN_UNIX_SOCKET_DIR %q has mode %v, must be -rwx------ (0700)",
			given, info.Mode().Perm()))
	case info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()):
		return "", false, refusal(fmt.Sprintf("memopt serve: PLUGIN_UNIX_SOCKET_DIR %q belongs to user %d, not to us (%d)",
			given, info.Sys().(*syscall.Stat_t).Uid, os.Geteuid()))
	case len(given) > maxFolder:
		return "", false, refusal(fmt.Sprintf("memopt serve: PLUGIN_UNIX_SOCKET_DIR %q has %d bytes, a socket's path leaves room for %d",
			given, len(given), maxFolder))
	}
	return given, false, nil
}

// removeFolderOf removes the socket's folder after the host has ended: with the files of its calls if it
// was made for this service, as its name says, else only if it is empty.
func removeFolderOf(folder string) {
	if strings.HasPrefix(filepath.Base(folder), "memopt.") {
		os.RemoveAll(folder)
		return
	}
	os.Remove(folder)
}

// newFolder makes a private folder where the path is likely to be short.
func newFolder() (string, error) {
	var last error
	for _, parent := range []string{os.Getenv("XDG_RUNTIME_DIR"), "/tmp", os.TempDir()} {
		if parent == "" || len(parent)+len("/memopt-4294967295") > maxFolder {
			continue
		}
		folder, err := os.MkdirTemp(parent, "memopt-")
		if err == nil {
			return folder, nil
		}
		last = err
	}
	return "", fmt.Errorf("no folder for the socket: %w", last)
}
