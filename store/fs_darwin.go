package store

import (
	"slices"
	"syscall"
)

// networkFS names the network file system that dir is on, "" where it is local.
func networkFS(dir string) string {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return ""
	}
	var name []byte
	for _, c := range fs.Fstypename {
		if c == 0 {
			break
		}
		name = append(name, byte(c))
	}
	if slices.Contains([]string{"nfs", "smbfs", "afpfs", "webdav", "macfuse", "osxfuse"}, string(name)) {
		return string(name)
	}
	return ""
}

// freeBytes returns what an unprivileged process may still write in dir.
func freeBytes(dir string) (uint64, error) {
	var fs syscall.Statfs_t
	err := syscall.Statfs(dir, &fs)
	return fs.Bavail * uint64(fs.Bsize), err
}
