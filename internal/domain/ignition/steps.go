package ignition

import (
	"encoding/base64"
	"path"
)

// upConversion converts a config of spec 2.4.0 to 3.6.0. Fields that the wanted version
// of spec 3 does not have are refused afterwards.
type upConversion struct{ *conversion }

func (c *upConversion) convert(root object) {
	c.fetchingUp(root)
	c.bareHeaders(root)
	for _, user := range objects(sub(root, "passwd"), "users") {
		userUp(user)
	}
	eachPartition(root, func(p object) {
		c.sectors(p, "size", "sizeMiB")
		c.sectors(p, "start", "startMiB")
	})
	for _, unit := range objects(sub(root, "systemd"), "units") {
		c.unitUp(unit)
	}
	storage := ensure(root, "storage")
	mounts := c.filesystemsUp(root, storage)
	c.nodesUp(storage, mounts)
	c.networkdUp(root, storage)
}

// fetchingUp converts the section that says where more is fetched from.
func (c *upConversion) fetchingUp(root object) {
	ignition := sub(root, "ignition")
	config := sub(ignition, "config")
	c.proxy(ignition, len(objects(config, "append")) > 0)
	if replace := sub(config, "replace"); replace != nil && text(replace, "source") == "" {
		c.lose(text(replace, origin), "it names no config; spec 3 has no such replacement")
	}
	if list, ok := config["append"]; ok {
		config["merge"] = list
		delete(config, "append")
	}
	proxy := sub(ignition, "proxy")
	for _, key := range []string{"httpProxy", "httpsProxy"} {
		if proxy[key] == "" {
			delete(proxy, key) // was the same as none
		}
	}
}

// userUp moves the fields of create to the user. A valid config has none of them in both.
func userUp(user object) {
	create, ok := user["create"].(object)
	if !ok {
		return
	}
	delete(user, "create")
	move(create, user, sortedKeys(create)...)
}

// sectors takes over a dimension of 0, which is the same in every unit. Any other
// number of sectors is a size that depends on the disk.
func (c *upConversion) sectors(p object, key, mebibytes string) {
	n, ok := integer(p, key)
	if !ok {
		return
	}
	if n != 0 {
		c.lose(pathOf(p, key), "it counts sectors, whose size depends on the disk; spec 3 counts MiB: use %s (spec 2.3.0 and "+
			"2.4.0 have it)", mebibytes)
	}
	delete(p, key)
	fill(p, mebibytes, number(0))
}

func (c *upConversion) unitUp(unit object) {
	enable := unit["enable"] == true
	delete(unit, "enable")
	switch {
	case enable && unit["enabled"] == false:
		c.lose(pathOf(unit, "enable"), "it contradicts enabled: remove it")
	case enable:
		unit["enabled"] = true
	}
	if unit["mask"] == false {
		delete(unit, "mask") // does nothing in spec 2, unmasks in spec 3
	}
	for _, dropin := range objects(unit, "dropins") {
		if dropin["contents"] == "" {
			delete(dropin, "contents") // is not written in spec 2, and would be in spec 3
		}
	}
}

// networkdUp writes the files that networkd units are.
func (c *upConversion) networkdUp(root, storage object) {
	var files []object
	write := func(from object, name string) {
		if contents := text(from, "contents"); contents != "" {
			files = append(files, object{
				origin: text(from, origin), "path": path.Join("/etc/systemd/network", name),
				"mode": number(0o644), "overwrite": true,
				"contents": object{origin: text(from, origin), "source": dataURL([]byte(contents))},
			})
		}
	}
	for _, unit := range objects(sub(root, "networkd"), "units") {
		name := text(unit, "name")
		write(unit, name)
		written := text(unit, "contents") != ""
		for _, dropin := range objects(unit, "dropins") {
			if text(dropin, "contents") == "" {
				c.lose(text(dropin, origin), "it has no contents, so that nothing is written: remove it")
			}
			write(dropin, name+".d/"+text(dropin, "name"))
			written = true
		}
		if !written {
			c.lose(text(unit, origin), "it has no contents, so that nothing is written: remove it")
		}
	}
	delete(root, "networkd")
	if len(files) > 0 {
		setObjects(storage, "files", append(objects(storage, "files"), files...))
	}
}

func dataURL(data []byte) string {
	return "data:;base64," + base64.StdEncoding.EncodeToString(data)
}

// downConversion converts a config of spec 3.6.0 to 2.4.0. Fields that the wanted version
// of spec 2 does not have are refused afterwards: they stay where they are until then.
type downConversion struct{ *conversion }

func (c *downConversion) convert(root object) {
	ignition := sub(root, "ignition")
	config := sub(ignition, "config")
	c.proxy(ignition, len(objects(config, "merge")) > 0)
	if list, ok := config["merge"]; ok {
		config["append"] = list
		delete(config, "merge")
	}
	for _, unit := range objects(sub(root, "systemd"), "units") {
		c.unitDown(unit)
	}
	if storage := sub(root, "storage"); storage != nil {
		c.nodesDown(storage, c.filesystemsDown(storage), len(objects(config, "append")) == 0)
	}
	c.bareHeaders(root)
}

func (c *downConversion) unitDown(unit object) {
	if mask, ok := unit["mask"].(bool); ok && !mask {
		c.lose(pathOf(unit, "mask"), "spec 2 cannot unmask a unit")
	}
	for _, dropin := range objects(unit, "dropins") {
		if dropin["contents"] == "" {
			c.lose(pathOf(dropin, "contents"), "spec 2 does not write an empty drop-in")
		}
	}
}
