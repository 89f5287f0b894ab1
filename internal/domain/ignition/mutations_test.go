package ignition

// mutation changes values of a config: edits has paths and the JSON that is put
// there, in turn; "" takes away what is there. major is the only one that it is for,
// 0 for both.
type mutation struct {
	name  string
	major uint16
	edits []string
}

func edit(name string, edits ...string) mutation { return mutation{name, 0, edits} }
func in2(name string, edits ...string) mutation  { return mutation{name, 2, edits} }
func in3(name string, edits ...string) mutation  { return mutation{name, 3, edits} }

const (
	file0   = "storage.files.0."
	source0 = file0 + "contents.source"
	hash0   = file0 + "contents.verification.hash"
	digest  = "abababababababababababababababababababababababababababababababababababababababababababababababababababababababababababababababab"
)

var mutations = []mutation{
	// Wrong types.
	edit("a section that is a list", "storage", `[]`),
	edit("a section that is a string", "systemd", `"x"`),
	edit("a section that is null", "storage", `null`),
	edit("a list that is an object", "storage.files", `{}`),
	edit("a list that is null", "storage.files", `null`),
	edit("an item that is null", "storage.files.0", `null`),
	edit("an item that is a string", "storage.files.0", `"/etc/a"`),
	edit("a path that is a number", file0+"path", `5`),
	edit("a path that is null", file0+"path", `null`),
	edit("a mode that is a string", file0+"mode", `"0644"`),
	edit("a mode that is a fraction", file0+"mode", `420.5`),
	edit("a mode with an exponent", file0+"mode", `42e1`),
	edit("a mode beyond 64 bits", file0+"mode", `99999999999999999999`),
	edit("contents that are a string", file0+"contents", `"a"`),
	edit("mask that is a string", "systemd.units.1.mask", `"true"`),
	edit("mask that is a number", "systemd.units.1.mask", `1`),
	edit("keys that are a string", "passwd.users.0.sshAuthorizedKeys", `"ssh-ed25519 A"`),
	edit("a gid that is a string", "passwd.groups.0.gid", `"500"`),
	edit("units that are an object", "systemd.units", `{"a.service": {}}`),

	// Paths.
	edit("a relative path", file0+"path", `"etc/a"`),
	edit("a path with a dot", file0+"path", `"/etc/./a"`),
	edit("a path that climbs", file0+"path", `"/etc/../a"`),
	edit("a path with a slash at its end", file0+"path", `"/etc/a/"`),
	edit("an empty path", file0+"path", `""`),
	edit("no path", file0+"path", ""),
	edit("the root as a file", file0+"path", `"/"`),
	in3("a relative directory", "storage.directories.0.path", `"opt"`),
	in3("a relative link", "storage.links.0.path", `"l"`),
	in3("a relative mount point", "storage.filesystems.0.path", `"var"`),

	// Modes.
	edit("a mode of 8 digits", file0+"mode", `10000000`),
	edit("a negative mode", file0+"mode", `-1`),
	edit("a mode of 4095", file0+"mode", `4095`),
	edit("a mode of 4096", file0+"mode", `4096`),
	edit("a mode of 755 in decimal", file0+"mode", `755`),

	// URLs.
	edit("a source that is empty", source0, `""`),
	edit("no source", source0, ""),
	edit("a source of ftp", source0, `"ftp://example.com/a"`),
	edit("a source of file", source0, `"file:///etc/a"`),
	edit("a source of tftp", source0, `"tftp://example.com/a"`),
	edit("a source of s3", source0, `"s3://bucket/a"`),
	edit("a source of gs", source0, `"gs://bucket/a"`),
	edit("a source of arn", source0, `"arn:aws:s3:::bucket/a"`),
	edit("a source of oem", source0, `"oem:///a"`),
	edit("a source without a scheme", source0, `"example.com/a"`),
	edit("a source with a bad address", source0, `"http://[::1"`),
	edit("a source with a bad escape", source0, `"http://example.com/%zz"`),
	edit("a source with a space", source0, `"http://exa mple.com/a"`),
	edit("a source with a colon alone", source0, `":"`),
	edit("a data URL without a comma", source0, `"data:a"`),
	edit("a data URL of bad base64", source0, `"data:;base64,!!!"`),
	edit("a data URL of an unknown encoding", source0, `"data:;base32,AA"`),

	// Hashes and compression.
	edit("a hash", hash0, `"sha512-`+digest+`"`),
	edit("a hash without a dash", hash0, `"`+digest+`"`),
	edit("a hash that is short", hash0, `"sha512-abab"`),
	edit("a hash of an unknown function", hash0, `"md5-d41d8cd98f00b204e9800998ecf8427e"`),
	edit("a hash that is no hex", hash0, `"sha512-zz`+digest[2:]+`"`),
	edit("a hash of sha256", hash0, `"sha256-`+digest[:64]+`"`),
	edit("compression gzip", file0+"contents.compression", `"gzip"`),
	edit("compression bzip2", file0+"contents.compression", `"bzip2"`),

	// Nodes.
	edit("two files of one path", "storage.files.1.path", `"/etc/a"`),
	in3("a file and a directory of one path", "storage.directories.0.path", `"/etc/a"`),
	in3("a file and a link of one path", "storage.links.0.path", `"/etc/a"`),
	in3("a file below a link", "storage.links.0.path", `"/etc"`),
	in3("a directory below a link", "storage.links.0.path", `"/opt"`),
	in3("a file below a file", "storage.files.1.path", `"/etc/a/b"`),
	in3("a link without a target", "storage.links.0.target", ""),
	in3("a link with an empty target", "storage.links.0.target", `""`),
	in3("a hard link to a directory", "storage.links.0.target", `"/opt/d"`, "storage.links.0.hard", `true`),
	in3("a file that overwrites without contents", file0+"contents", "", file0+"overwrite", `true`),
	in3("a user of id and name", file0+"user", `{"id": 1, "name": "a"}`),
	in3("a negative user", file0+"user", `{"id": -1}`),
	in3("two same appends", file0+"append", `[{"source": "data:,a"}, {"source": "data:,a"}]`),
	in2("a file of no filesystem", file0+"filesystem", ""),
	in2("a file of an unknown filesystem", file0+"filesystem", `"nowhere"`),
	in2("append beside overwrite", file0+"append", `true`, file0+"overwrite", `true`),

	// Disks, partitions, RAID.
	edit("two disks of one device", "storage.disks.1", `{"device": "/dev/vda"}`),
	edit("a disk without a device", "storage.disks.0.device", ""),
	edit("a disk of a relative device", "storage.disks.0.device", `"vda"`),
	edit("two partitions of one number", "storage.disks.0.partitions.1.number", `1`),
	edit("two partitions of one label", "storage.disks.0.partitions.1.label", `"one"`),
	edit("two partitions of number 0", "storage.disks.0.partitions.0.number", `0`, "storage.disks.0.partitions.1.number", `0`),
	edit("a negative partition", "storage.disks.0.partitions.0.number", `-1`),
	edit("a label of 37 characters", "storage.disks.0.partitions.0.label", `"0123456789012345678901234567890123456"`),
	edit("a label with a colon", "storage.disks.0.partitions.0.label", `"a:b"`),
	edit("a GUID", "storage.disks.0.partitions.0.guid", `"12345678-1234-1234-1234-123456789ABC"`),
	edit("a GUID in lower case", "storage.disks.0.partitions.0.guid", `"12345678-1234-1234-1234-123456789abc"`),
	edit("a GUID that is short", "storage.disks.0.partitions.0.guid", `"12345678"`),
	edit("an empty GUID", "storage.disks.0.partitions.0.guid", `""`),
	edit("a type GUID of words", "storage.disks.0.partitions.0.typeGuid", `"linux"`),
	in2("partitions that overlap", "storage.disks.0.partitions.1.start", `4096`),
	in2("a start that is not aligned", "storage.disks.0.partitions.0.start", `2049`),
	in2("sectors beside MiB", "storage.disks.0.partitions.0.sizeMiB", `4`),
	in3("partitions that overlap", "storage.disks.0.partitions.1.startMiB", `3`),
	in3("a partition that is not to be, with a size", "storage.disks.0.partitions.0.shouldExist", `false`),
	in3("a partition that is resized without a size", "storage.disks.0.partitions.0", `{"number": 1, "resize": true}`),
	in3("a partition of no number and no label", "storage.disks.0.partitions.0", `{"sizeMiB": 4}`),
	in3("a partition of sectors", "storage.disks.0.partitions.0.size", `4096`),
	edit("an unknown RAID level", "storage.raid.0.level", `"raid42"`),
	edit("no RAID level", "storage.raid.0.level", ""),
	edit("a RAID without devices", "storage.raid.0.devices", `[]`),
	edit("a RAID of one device twice", "storage.raid.0.devices", `["/dev/vdb", "/dev/vdb"]`),
	edit("a RAID of relative devices", "storage.raid.0.devices", `["vdb"]`),
	edit("a RAID without a name", "storage.raid.0.name", ""),
	edit("a spare of RAID 0", "storage.raid.0.level", `"raid0"`, "storage.raid.0.spares", `1`),
	edit("a spare", "storage.raid.0.spares", `1`),
	edit("two RAIDs of one name", "storage.raid.1", `{"name": "md", "level": "raid1", "devices": ["/dev/vde"]}`),

	// Filesystems.
	in2("a filesystem of an unknown format", "storage.filesystems.0.mount.format", `"zfs"`),
	in2("a filesystem without a format", "storage.filesystems.0.mount.format", ""),
	in2("a filesystem without a device", "storage.filesystems.0.mount.device", ""),
	in2("a filesystem without a mount", "storage.filesystems.0.mount", ""),
	in2("a filesystem of mount and path", "storage.filesystems.0.path", `"/sysroot"`),
	in2("a filesystem of a relative path", "storage.filesystems.0", `{"name": "data", "path": "sysroot"}`),
	in2("two filesystems of one name", "storage.filesystems.1", `{"name": "data", "path": "/x"}`),
	in2("create beside wipeFilesystem", "storage.filesystems.0.mount.create", `{}`, "storage.filesystems.0.mount.wipeFilesystem", `true`),
	in2("create with options", "storage.filesystems.0.mount.create", `{"force": true, "options": ["-q"]}`),
	in2("a label of 40 characters", "storage.filesystems.0.mount.label", `"0123456789012345678901234567890123456789"`),
	in3("a filesystem of an unknown format", "storage.filesystems.0.format", `"zfs"`),
	in3("a filesystem without a format", "storage.filesystems.0.format", ""),
	in3("a filesystem without a device", "storage.filesystems.0.device", ""),
	in3("a filesystem of format none", "storage.filesystems.0.format", `"none"`),
	in3("a filesystem of no format, mounted nowhere", "storage.filesystems.0", `{"device": "/dev/vdd"}`),
	in3("two filesystems of one path", "storage.filesystems.1", `{"device": "/dev/vde", "path": "/var", "format": "xfs"}`),
	in3("two filesystems of one device", "storage.filesystems.1", `{"device": "/dev/vdd", "path": "/srv", "format": "xfs"}`),
	in3("a swap that is mounted", "storage.filesystems.0.format", `"swap"`),
	in3("a label of 40 characters", "storage.filesystems.0.label", `"0123456789012345678901234567890123456789"`),
	in3("a filesystem that is wiped without a format", "storage.filesystems.0", `{"device": "/dev/vdd", "wipeFilesystem": true}`),

	// LUKS.
	in3("LUKS", "storage.luks", `[{"name": "l", "device": "/dev/vdz"}]`),
	in3("LUKS without a name", "storage.luks", `[{"device": "/dev/vdz"}]`),
	in3("LUKS without a device", "storage.luks", `[{"name": "l"}]`),
	in3("LUKS of a name with a slash", "storage.luks", `[{"name": "a/b", "device": "/dev/vdz"}]`),
	in3("two LUKS of one name", "storage.luks", `[{"name": "l", "device": "/dev/vdz"}, {"name": "l", "device": "/dev/vdy"}]`),
	in3("tang without a thumbprint", "storage.luks", `[{"name": "l", "device": "/dev/vdz", "clevis": {"tang": [{"url": "http://t"}]}}]`),
	in3("an unknown clevis pin", "storage.luks", `[{"name": "l", "device": "/dev/vdz", "clevis": {"custom": {"pin": "x", "config": "{}"}}}]`),
	in3("a custom pin beside tpm2", "storage.luks", `[{"name": "l", "device": "/dev/vdz", "clevis": {"tpm2": true, "custom": {"pin": "tang", "config": "{}"}}}]`),
	in3("a threshold beyond its pins", "storage.luks", `[{"name": "l", "device": "/dev/vdz", "clevis": {"tpm2": true, "threshold": 3}}]`),
	in3("a bad advertisement", "storage.luks", `[{"name": "l", "device": "/dev/vdz", "clevis": {"tang": [{"url": "http://t", "thumbprint": "t", "advertisement": "x"}]}}]`),
	in3("cex beside a key file", "storage.luks", `[{"name": "l", "device": "/dev/vdz", "cex": {"enabled": true}, "keyFile": {"source": "data:,a"}}]`),

	// Units.
	edit("a unit without a name", "systemd.units.1.name", ""),
	edit("a unit of no type", "systemd.units.1.name", `"b"`),
	edit("a unit of an unknown type", "systemd.units.1.name", `"b.thing"`),
	edit("two units of one name", "systemd.units.1.name", `"a.service"`),
	edit("a unit whose section is not closed", "systemd.units.0.contents", `"[Service"`),
	edit("a unit of a line without a value", "systemd.units.0.contents", `"[Service]\nExecStart"`),
	edit("a unit that is enabled and cannot be", "systemd.units.0.contents", `"[Service]\nExecStart=/bin/a"`),
	edit("an empty unit", "systemd.units.0.contents", `""`),
	edit("a drop-in of another extension", "systemd.units.0.dropins", `[{"name": "x.txt"}]`),
	edit("two drop-ins of one name", "systemd.units.0.dropins", `[{"name": "x.conf"}, {"name": "x.conf"}]`),
	edit("a drop-in whose section is not closed", "systemd.units.0.dropins", `[{"name": "x.conf", "contents": "[Unit"}]`),
	in2("a network of an unknown type", "networkd.units.0.name", `"a.thing"`),
	in2("a network whose section is not closed", "networkd.units.0.contents", `"[Match"`),
	in2("two networks of one name", "networkd.units.1", `{"name": "a.network"}`),
	in3("networkd", "networkd", `{"units": [{"name": "a.network", "contents": "[Match]\nName=a"}]}`),

	// Users.
	edit("a user without a name", "passwd.users.1.name", ""),
	edit("two users of one name", "passwd.users.1.name", `"a"`),
	edit("a group without a name", "passwd.groups.0.name", ""),
	edit("two groups of one name", "passwd.groups.1", `{"name": "g"}`),
	edit("two same keys", "passwd.users.0.sshAuthorizedKeys", `["ssh-ed25519 A", "ssh-ed25519 A"]`),
	edit("a password hash", "passwd.users.0.passwordHash", `"$y$x"`),
	edit("a user that is not to be", "passwd.users.1.shouldExist", `false`),
	in2("a user who is created and has a shell", "passwd.users.0.create", `{}`, "passwd.users.0.shell", `"/bin/sh"`),

	// Further configs, certificates, proxies and timeouts.
	in3("a config that is merged", "ignition.config.merge", `[{"source": "https://example.com/c"}]`),
	in3("a config that is merged without a source", "ignition.config.merge", `[{}]`),
	in3("a config that replaces without a source", "ignition.config.replace", `{}`),
	in3("a config of a bad scheme", "ignition.config.merge", `[{"source": "ftp://example.com/c"}]`),
	in3("two same configs", "ignition.config.merge", `[{"source": "http://c"}, {"source": "http://c"}]`),
	in3("a config that is appended", "ignition.config.append", `[{"source": "https://example.com/c"}]`),
	in2("a config that is appended", "ignition.config.append", `[{"source": "https://example.com/c"}]`),
	in2("a config that is appended without a source", "ignition.config.append", `[{}]`),
	in2("a config that is merged", "ignition.config.merge", `[{"source": "https://example.com/c"}]`),
	edit("a config with a bad hash", "ignition.config.replace", `{"source": "http://c", "verification": {"hash": "x"}}`),
	edit("a certificate", "ignition.security.tls.certificateAuthorities", `[{"source": "data:,a"}]`),
	edit("a certificate of a bad scheme", "ignition.security.tls.certificateAuthorities", `[{"source": "ftp://a"}]`),
	edit("two same certificates", "ignition.security.tls.certificateAuthorities", `[{"source": "data:,a"}, {"source": "data:,a"}]`),
	edit("a proxy", "ignition.proxy.httpProxy", `"http://proxy"`),
	edit("a proxy of a bad scheme", "ignition.proxy.httpsProxy", `"ftp://proxy"`),
	edit("noProxy that is a string", "ignition.proxy.noProxy", `"example.com"`),
	edit("a negative timeout", "ignition.timeouts.httpTotal", `-1`),
	edit("a timeout that is a string", "ignition.timeouts.httpTotal", `"30s"`),
	edit("headers", "storage.files.1.contents.httpHeaders", `[{"name": "A", "value": "b"}]`),
	edit("a header without a name", "storage.files.1.contents.httpHeaders", `[{"value": "b"}]`),
	edit("a header without a value", "storage.files.1.contents.httpHeaders", `[{"name": "A"}]`),
	edit("two headers of one name", "storage.files.1.contents.httpHeaders", `[{"name": "A", "value": "b"}, {"name": "A", "value": "c"}]`),
	edit("headers of a data URL", file0+"contents.httpHeaders", `[{"name": "A", "value": "b"}]`),

	// Kernel arguments.
	edit("kernel arguments", "kernelArguments", `{"shouldExist": ["quiet"]}`),
	edit("a kernel argument that is and is not to be", "kernelArguments", `{"shouldExist": ["a"], "shouldNotExist": ["a"]}`),
	edit("two same kernel arguments", "kernelArguments", `{"shouldExist": ["a", "a"]}`),
	edit("an empty kernel argument", "kernelArguments", `{"shouldExist": [""]}`),
}
