package store

import "syscall"

// networkMagic are the f_type values of statfs(2) for file systems that are not
// on a local disk.
var networkMagic = map[uint32]string{
	0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x65735546: "FUSE", 0x01021997: "9P",
	0x5346414f: "AFS", 0x73757245: "Coda", 0x00c36400: "Ceph", 0x47504653: "GPFS", 0x0bd00bd0: "Lustre",
	0x7461636f: "OCFS2", 0x786f4256: "VirtualBox shared folder", 0x6a656a62: "virtiofs",
}

// networkFS names the network file system that dir is on, "" where it is local.
func networkFS(dir string) string {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return ""
	}
	return networkMagic[uint32(fs.Type)]
}

// freeBytes returns what an unprivileged process may still write in dir.
func freeBytes(dir string) (uint64, error) {
	var fs syscall.Statfs_t
	err := syscall.Statfs(dir, &fs)
	return fs.Bavail * uint64(fs.Bsize), err
}
